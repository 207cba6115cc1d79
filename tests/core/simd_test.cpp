#include "kvpop/core/simd.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kvpop/core/buffer.hpp"  // memory of an exact size, so that a sanitizer sees an access beyond it

namespace simd = kvpop::simd;
using kvpop::index_t;

namespace {

constexpr index_t lanes = simd::lanes;

std::vector<float> draw(index_t n, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (float& v : x) v = normal(random);
  return x;
}

// A scalar type of a consumer's own: a signed eighth.
struct eighths {
  std::int8_t count;
};

}  // namespace

template <>
struct kvpop::scalar_traits<eighths> {
  static constexpr const char* name = "eighths";
  static constexpr float to_float(eighths x) noexcept { return static_cast<float>(x.count) / 8.0F; }
  static constexpr eighths from_float(float x) noexcept { return {static_cast<std::int8_t>(x * 8.0F)}; }
};

TEST_CASE("lanes is the width that this file was compiled for") {
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
  CHECK(lanes == 16);
#elif defined(__AVX2__)
  CHECK(lanes == 8);
#else
  CHECK(lanes == 4);
#endif
}

TEST_CASE("a load then a store changes no bit, at any alignment") {
  std::mt19937 random(1);
  const std::vector<float> x = draw(3 * lanes, random);
  for (index_t shift = 0; shift < lanes; ++shift) {
    std::vector<float> y(x.size(), 0.0F);
    simd::store(y.data() + shift, simd::load(x.data() + shift));
    for (index_t i = 0; i < 3 * lanes; ++i) {
      const bool inside = i >= shift && i < shift + lanes;
      CHECK(y[static_cast<std::size_t>(i)] == (inside ? x[static_cast<std::size_t>(i)] : 0.0F));
    }
  }
}

TEST_CASE_TEMPLATE("the first n elements: no memory beyond them is touched, the other lanes are zero", T, float,
                   kvpop::float16, kvpop::bfloat16) {
  for (index_t n = 0; n < lanes; ++n) {
    kvpop::buffer<T> from(n);
    kvpop::buffer<T> to(n);
    for (index_t i = 0; i < n; ++i) {
      from.data()[i] = kvpop::scalar_traits<T>::from_float(static_cast<float>(i + 1));
    }
    const simd::vec v = simd::load_first(from.data(), n);
    simd::store_first(to.data(), v, n);
    for (index_t i = 0; i < lanes; ++i) CHECK(v[i] == (i < n ? static_cast<float>(i + 1) : 0.0F));
    for (index_t i = 0; i < n; ++i) CHECK(static_cast<float>(to.data()[i]) == static_cast<float>(i + 1));
  }
  kvpop::buffer<T> three(3);
  for (index_t i = 0; i < 3; ++i) three.data()[i] = kvpop::scalar_traits<T>::from_float(static_cast<float>(i + 1));
  const simd::vec v = simd::load_part<3>(three.data());
  for (index_t i = 0; i < lanes; ++i) CHECK(v[i] == (i < 3 ? static_cast<float>(i + 1) : 0.0F));
}

TEST_CASE("a scalar type of one's own loads and stores through scalar_traits") {
  CHECK(std::string(kvpop::scalar_traits<eighths>::name) == "eighths");
  std::vector<eighths> x(static_cast<std::size_t>(lanes));
  for (index_t i = 0; i < lanes; ++i) x[static_cast<std::size_t>(i)].count = static_cast<std::int8_t>(3 * i - 20);
  const simd::vec v = simd::load(x.data());
  std::vector<eighths> y(x.size());
  simd::store(y.data(), v);
  for (index_t i = 0; i < lanes; ++i) {
    CHECK(v[i] == static_cast<float>(3 * i - 20) / 8.0F);
    CHECK(y[static_cast<std::size_t>(i)].count == x[static_cast<std::size_t>(i)].count);
  }
}

TEST_CASE("broadcast, fma, select, max and min, lane by lane") {
  std::mt19937 random(2);
  for (int draw_number = 0; draw_number < 1000; ++draw_number) {
    const std::vector<float> a = draw(lanes, random);
    const std::vector<float> b = draw(lanes, random);
    const std::vector<float> c = draw(lanes, random);
    const simd::vec x = simd::load(a.data());
    const simd::vec y = simd::load(b.data());
    const simd::vec z = simd::load(c.data());
    const simd::vec f = simd::fma(x, y, z);
    const simd::vec larger = simd::max(x, y);
    const simd::vec smaller = simd::min(x, y);
    const simd::vec chosen = simd::select(x < y, x, z);
    const simd::vec same = simd::broadcast(a[0]);
    for (index_t i = 0; i < lanes; ++i) {
      const auto j = static_cast<std::size_t>(i);
      const double exact = static_cast<double>(a[j]) * static_cast<double>(b[j]) + static_cast<double>(c[j]);
      CHECK(std::fabs(static_cast<double>(f[i]) - exact) <=
            1.2e-7 * (std::fabs(exact) + std::fabs(static_cast<double>(a[j] * b[j]))));
      CHECK(larger[i] == std::fmax(a[j], b[j]));
      CHECK(smaller[i] == std::fmin(a[j], b[j]));
      CHECK(chosen[i] == (a[j] < b[j] ? a[j] : c[j]));
      CHECK(same[i] == a[0]);
    }
  }
  CHECK(std::signbit(simd::broadcast(-0.0F)[0]));
}

TEST_CASE("max and min give the second operand where the first is NaN") {
  const simd::vec nan = simd::broadcast(std::numeric_limits<float>::quiet_NaN());
  CHECK(simd::max(nan, simd::broadcast(3.0F))[0] == 3.0F);
  CHECK(simd::min(nan, simd::broadcast(3.0F))[0] == 3.0F);
  CHECK(std::isnan(simd::max(simd::broadcast(3.0F), nan)[0]));
  CHECK(std::isnan(simd::min(simd::broadcast(3.0F), nan)[0]));
}

TEST_CASE("every lane takes part in a reduction, and lands in its own place") {
  for (index_t i = 0; i < lanes; ++i) {
    simd::vec one{};
    one[i] = 7.0F;
    CHECK(simd::reduce_add(one) == 7.0F);
    simd::vec low = simd::broadcast(-5.0F);
    low[i] = -3.0F;
    CHECK(simd::reduce_max(low) == -3.0F);
  }
  for (index_t row = 0; row < lanes; ++row) {
    for (index_t lane = 0; lane < lanes; ++lane) {
      simd::vec acc[lanes] = {};
      acc[row][lane] = 2.0F;
      const simd::vec sums = simd::reduce_add_each(acc);
      for (index_t i = 0; i < lanes; ++i) CHECK(sums[i] == (i == row ? 2.0F : 0.0F));
    }
  }
}

TEST_CASE("dot agrees with double for every length, reads nothing beyond it, and has one result for one length") {
  std::mt19937 random(3);
  for (index_t n = 0; n <= 300; ++n) {
    for (int draw_number = 0; draw_number < 4; ++draw_number) {
      const std::vector<float> a = draw(n, random);
      const std::vector<float> b = draw(n, random);
      kvpop::buffer<float> x(n);
      kvpop::buffer<kvpop::bfloat16> narrow(n);
      double exact = 0;
      double exact_narrow = 0;
      double size = 0;
      for (index_t i = 0; i < n; ++i) {
        const auto j = static_cast<std::size_t>(i);
        x.data()[i] = a[j];
        narrow.data()[i] = kvpop::bfloat16(b[j]);
        exact += static_cast<double>(a[j]) * static_cast<double>(b[j]);
        exact_narrow += static_cast<double>(a[j]) * static_cast<double>(static_cast<float>(narrow.data()[i]));
        size += std::fabs(static_cast<double>(a[j]) * static_cast<double>(b[j]));
      }
      const float got = simd::dot(x.data(), b.data(), n);
      CHECK(std::fabs(static_cast<double>(got) - exact) <= 1e-6 * size);
      CHECK(std::fabs(static_cast<double>(simd::dot(x.data(), narrow.data(), n)) - exact_narrow) <= 1.1e-6 * size);
      std::vector<float> moved(static_cast<std::size_t>(n) + 3);  // elsewhere, at another alignment
      for (index_t i = 0; i < n; ++i) moved[static_cast<std::size_t>(i) + 3] = b[static_cast<std::size_t>(i)];
      CHECK(std::bit_cast<std::uint32_t>(simd::dot(x.data(), moved.data() + 3, n)) ==
            std::bit_cast<std::uint32_t>(got));
    }
  }
}
