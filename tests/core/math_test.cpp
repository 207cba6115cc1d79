#include "kvpop/core/math.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace simd = kvpop::simd;
using kvpop::index_t;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// The distance of a float from the true value, in units in the last place of that value.
double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0.0 : 1e30;
  const auto rounded = static_cast<float>(want);
  if (std::isinf(rounded)) return got == rounded || std::fabs(got) == std::numeric_limits<float>::max() ? 0.0 : 1e30;
  int exponent = 0;
  static_cast<void>(std::frexp(rounded, &exponent));
  const double unit = std::ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
  return std::fabs(static_cast<double>(got) - want) / unit;
}

// The largest error over floats spread evenly over all bit patterns between first and last, in both signs.
template <class F, class G>
double worst(F f, G exact, float first, float last, float sign = 1.0F) {
  const auto low = std::bit_cast<std::uint32_t>(first);
  const auto high = std::bit_cast<std::uint32_t>(last);
  const std::uint32_t step = (high - low) / 400'000 + 1;
  double most = 0;
  float x[simd::lanes];
  float y[simd::lanes];
  for (std::uint64_t b = low; b <= high; b += std::uint64_t{step} * static_cast<std::uint64_t>(simd::lanes)) {
    for (index_t i = 0; i < simd::lanes; ++i) {
      const std::uint64_t at = b + std::uint64_t{step} * static_cast<std::uint64_t>(i);
      x[i] = sign * std::bit_cast<float>(at > high ? high : static_cast<std::uint32_t>(at));
    }
    simd::store(y, f(simd::load(x)));
    for (index_t i = 0; i < simd::lanes; ++i) most = std::fmax(most, ulps(y[i], exact(static_cast<double>(x[i]))));
  }
  return most;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

}  // namespace

TEST_CASE("exp is within 1.2 ulp of double over its whole range") {
  const auto f = [](simd::vec v) { return simd::exp(v); };
  const auto exact = [](double x) { return std::exp(x); };
  CHECK(worst(f, exact, 0.0F, infinity) < 1.2);
  CHECK(worst(f, exact, 0.0F, 86.98F, -1.0F) < 1.2);
  CHECK(simd::exp(0.0F) == 1.0F);
  CHECK(simd::exp(-0.0F) == 1.0F);
}

TEST_CASE("exp at its ends: zero below -87, infinity above 88.7228, NaN stays NaN") {
  for (const float x : {-infinity, -1e30F, -1000.0F, -104.0F, -88.0F, -87.3F, -87.0F}) CHECK(simd::exp(x) == 0.0F);
  for (const float x : {88.7229F, 89.0F, 104.0F, 1e30F, infinity}) CHECK(simd::exp(x) == infinity);
  CHECK(simd::exp(88.7228F) < infinity);
  CHECK(std::isnan(simd::exp(nan_value)));
  CHECK(std::isnan(simd::exp(-nan_value)));
}

TEST_CASE("log is within 1 ulp of double, subnormals included") {
  const auto f = [](simd::vec v) { return simd::log(v); };
  const auto exact = [](double x) { return std::log(x); };
  CHECK(worst(f, exact, std::bit_cast<float>(1U), infinity) < 1.0);
  CHECK(worst(f, exact, 0.5F, 2.0F) < 1.0);
  CHECK(simd::log(1.0F) == 0.0F);
  CHECK(simd::log(0.0F) == -infinity);
  CHECK(simd::log(-0.0F) == -infinity);
  CHECK(simd::log(infinity) == infinity);
  for (const float x : {-1e-40F, -1.0F, -infinity, nan_value}) CHECK(std::isnan(simd::log(x)));
}

TEST_CASE("sigmoid, silu, log_sigmoid, softplus and tanh against double") {
  const auto f_sigmoid = [](simd::vec v) { return simd::sigmoid(v); };
  const auto f_silu = [](simd::vec v) { return simd::silu(v); };
  const auto f_log_sigmoid = [](simd::vec v) { return simd::log_sigmoid(v); };
  const auto f_softplus = [](simd::vec v) { return simd::softplus(v); };
  const auto f_tanh = [](simd::vec v) { return simd::tanh(v); };
  for (const float sign : {1.0F, -1.0F}) {
    const float far = sign > 0 ? std::numeric_limits<float>::max() : 86.9F;
    CHECK(worst(
              f_sigmoid, [](double x) { return sigmoid(x); }, 0.0F, far, sign) < 3.0);
    CHECK(worst(
              f_silu, [](double x) { return x * sigmoid(x); }, 1e-37F, far, sign) < 4.0);
    CHECK(worst(
              f_log_sigmoid, [](double x) { return -softplus(-x); }, 0.0F, 86.9F, sign) < 3.0);
    CHECK(worst(
              f_softplus, [](double x) { return softplus(x); }, 0.0F, 86.9F, sign) < 3.0);
    CHECK(worst(
              f_tanh, [](double x) { return std::tanh(x); }, 1e-37F, infinity, sign) < 2.0);
  }
}

TEST_CASE("the same functions at infinity, and NaN") {
  CHECK(simd::sigmoid(infinity) == 1.0F);
  CHECK(simd::sigmoid(-infinity) == 0.0F);
  CHECK(simd::silu(infinity) == infinity);
  CHECK(simd::silu(-infinity) == 0.0F);
  CHECK(simd::log_sigmoid(infinity) == 0.0F);
  CHECK(simd::log_sigmoid(-infinity) == -infinity);
  CHECK(simd::softplus(infinity) == infinity);
  CHECK(simd::softplus(-infinity) == 0.0F);
  CHECK(simd::tanh(infinity) == 1.0F);
  CHECK(simd::tanh(-infinity) == -1.0F);
  CHECK(std::signbit(simd::tanh(-0.0F)));
  CHECK(std::isnan(simd::sigmoid(nan_value)));
  CHECK(std::isnan(simd::silu(nan_value)));
  CHECK(std::isnan(simd::log_sigmoid(nan_value)));
  CHECK(std::isnan(simd::softplus(nan_value)));
  CHECK(std::isnan(simd::tanh(nan_value)));
}

TEST_CASE("a number gets the bits that a lane gets") {
  for (const float x : {-80.0F, -3.7F, -0.1F, 0.3F, 2.0F, 60.5F}) {
    for (index_t lane = 0; lane < simd::lanes; ++lane) {
      simd::vec v = simd::broadcast(-1.0F);
      v[lane] = x;
      CHECK(std::bit_cast<std::uint32_t>(simd::exp(v)[lane]) == std::bit_cast<std::uint32_t>(simd::exp(x)));
      CHECK(std::bit_cast<std::uint32_t>(simd::tanh(v)[lane]) == std::bit_cast<std::uint32_t>(simd::tanh(x)));
      CHECK(std::bit_cast<std::uint32_t>(simd::silu(v)[lane]) == std::bit_cast<std::uint32_t>(simd::silu(x)));
    }
  }
}
