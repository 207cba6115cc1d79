#include "qwen3/linear.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "files.hpp"                   // message_of
#include "kvpop/core/error.hpp"        // error
#include "kvpop/core/thread_pool.hpp"  // thread_pool

namespace {

using namespace qwen3_test;
using kvpop::host_context;
using qwen3::linear;
using qwen3::weight_matrix;
using qwen3::weight_type;

constexpr weight_type types[] = {weight_type::f32, weight_type::bf16, weight_type::f16};

// A matrix with the numbers that its dtype holds, in both forms.
struct matrix {
  std::vector<std::byte> stored;
  std::vector<double> values;  // [out, in]
  weight_matrix w;

  matrix(weight_type type, std::int64_t out, std::int64_t in, std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < out * in; ++i) {
      const float drawn = normal(random);
      if (type == weight_type::f32) put(drawn);
      if (type == weight_type::bf16) put(kvpop::bfloat16(drawn));
      if (type == weight_type::f16) put(kvpop::float16(drawn));
    }
    w = {stored.data(), type, out, in};
  }

  template <class T>
  void put(T element) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&element);
    stored.insert(stored.end(), bytes, bytes + sizeof element);
    values.push_back(static_cast<double>(static_cast<float>(element)));
  }
};

std::vector<float> numbers(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> result(static_cast<std::size_t>(count));
  for (float& x : result) x = normal(random);
  return result;
}

std::vector<float> product(const host_context& ctx, const std::vector<float>& x, std::int64_t rows,
                           const weight_matrix& w, const float* bias) {
  static std::vector<float> scratch;  // one for all: filling it anew would take longer than the products
  scratch.resize(std::max(scratch.size(), static_cast<std::size_t>(qwen3::linear_scratch(ctx))), NAN);
  std::vector<float> y(static_cast<std::size_t>(rows * w.out), NAN);  // what was there before does not matter
  linear(ctx, x.data(), rows, w, bias, y.data(), scratch);
  return y;
}

// The largest error of y over the sum of the magnitudes that were added.
double worst_error(const std::vector<float>& x, std::int64_t rows, const matrix& m, const float* bias,
                   const std::vector<float>& y) {
  double worst = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < m.w.out; ++o) {
      double sum = bias == nullptr ? 0 : static_cast<double>(bias[o]), magnitude = std::abs(sum) + 1e-30;
      for (std::int64_t i = 0; i < m.w.in; ++i) {
        const double term = static_cast<double>(x[static_cast<std::size_t>(r * m.w.in + i)]) *
                            m.values[static_cast<std::size_t>(o * m.w.in + i)];
        sum += term;
        magnitude += std::abs(term);
      }
      const double error = std::abs(static_cast<double>(y[static_cast<std::size_t>(r * m.w.out + o)]) - sum);
      worst = std::max(worst, error / magnitude);
    }
  }
  return worst;
}

constexpr double tolerance = 2e-6;  // of the magnitudes: sums of f32 products in f32

}  // namespace

TEST_CASE("every dtype and odd shape agrees with sums in double") {
  std::mt19937 random(11);
  kvpop::thread_pool pool(3);
  constexpr std::int64_t row_counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 33};
  constexpr std::int64_t sizes[] = {1, 2, 3, 5, 15, 16, 17, 31, 63, 64, 65, 67, 127, 131, 257};
  for (int draw = 0; draw < 1000; ++draw) {
    const std::int64_t rows = row_counts[random() % std::size(row_counts)];
    const std::int64_t out = sizes[random() % std::size(sizes)], in = sizes[random() % std::size(sizes)];
    const matrix m(types[draw % 3], out, in, random);
    const auto x = numbers(rows * in, random), bias = numbers(out, random);
    const float* shift = random() % 2 == 0 ? bias.data() : nullptr;
    const host_context ctx = random() % 2 == 0 ? pool.context() : host_context();
    CAPTURE(rows);
    CAPTURE(out);
    CAPTURE(in);
    CHECK(worst_error(x, rows, m, shift, product(ctx, x, rows, m.w, shift)) < tolerance);
  }
}

TEST_CASE("shapes that take several panels, blocks and threads") {
  std::mt19937 random(12);
  kvpop::thread_pool pool(2);
  struct shape {
    std::int64_t rows, out, in;
  };
  for (const shape& s : {shape{1, 1031, 2053}, shape{8, 521, 1025}, shape{9, 257, 1025}, shape{11, 1031, 1024},
                         shape{515, 259, 67}, shape{1027, 3, 131}, shape{17, 5, 2049}}) {
    for (const weight_type type : types) {
      const matrix m(type, s.out, s.in, random);
      const auto x = numbers(s.rows * s.in, random), bias = numbers(s.out, random);
      const auto y = product(pool.context(), x, s.rows, m.w, bias.data());
      CHECK(worst_error(x, s.rows, m, bias.data(), y) < tolerance);
      const auto again = product(host_context(), x, s.rows, m.w, bias.data());
      CHECK(std::memcmp(y.data(), again.data(), y.size() * sizeof(float)) == 0);  // for any number of threads
    }
  }
}

TEST_CASE("a needle in every place of W is found in its place of y") {
  std::mt19937 random(13);
  constexpr std::int64_t out = 7, in = 70;
  for (const weight_type type : types) {
    for (const std::int64_t rows : {1, 3, 9}) {
      matrix m(type, out, in, random);
      const std::size_t element = m.stored.size() / m.values.size();
      std::vector<std::byte> one(element);
      const float f = 1;
      const std::uint16_t half = type == weight_type::bf16 ? kvpop::bfloat16(f).bits : kvpop::float16(f).bits;
      std::memcpy(one.data(), element == 4 ? static_cast<const void*>(&f) : &half, element);
      std::vector<float> x(static_cast<std::size_t>(rows * in));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
      std::fill(m.stored.begin(), m.stored.end(), std::byte{0});
      bool right = true;
      for (std::int64_t place = 0; place < out * in; ++place) {
        std::byte* at = m.stored.data() + static_cast<std::size_t>(place) * element;
        std::memcpy(at, one.data(), element);
        const auto y = product(host_context(), x, rows, m.w, nullptr);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t o = 0; o < out; ++o) {
            const float expected = o == place / in ? static_cast<float>(r * in + place % in + 1) : 0.0F;
            right = right && y[static_cast<std::size_t>(r * out + o)] == expected;
          }
        }
        std::memset(at, 0, element);
      }
      CHECK(right);
    }
  }
}

TEST_CASE("a row of few does not depend on the rows beside it") {
  std::mt19937 random(14);
  for (const weight_type type : types) {
    constexpr std::int64_t out = 37, in = 211, rows = qwen3::linear_few_rows - 1;
    const matrix m(type, out, in, random);
    const auto x = numbers(rows * in, random);
    const auto together = product(host_context(), x, rows, m.w, nullptr);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::vector<float> row(x.begin() + r * in, x.begin() + (r + 1) * in);
      const auto alone = product(host_context(), row, 1, m.w, nullptr);
      CHECK(std::memcmp(alone.data(), together.data() + r * out, out * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("no rows, too little scratch, rows that W does not have") {
  std::mt19937 random(15);
  const matrix m(weight_type::bf16, 3, 5, random);
  float y[3] = {1, 2, 3};
  const float x[5] = {};
  const host_context ctx;
  std::vector<float> scratch(static_cast<std::size_t>(qwen3::linear_scratch(ctx)));
  linear(ctx, x, 0, m.w, nullptr, y, scratch);
  CHECK(y[0] == 1);
  CHECK(message_of<kvpop::error>([&] { linear(ctx, x, 1, m.w, nullptr, y, std::span(scratch).first(7)); }) ==
        "kvpop: linear: scratch is 7; it must be at least linear_scratch(ctx) floats");
  CHECK(message_of<kvpop::error>([&] { linear(ctx, x, -1, m.w, nullptr, y, scratch); }) ==
        "kvpop: linear: rows is -1; it must be at least 0");
  CHECK(y[0] == 1);
  float row[5];
  CHECK(message_of<kvpop::error>([&] { qwen3::copy_row(m.w, 3, row); }) ==
        "kvpop: copy_row: row is 3; it must be 0 to 2");
  CHECK(message_of<kvpop::error>([&] { qwen3::copy_row(m.w, -1, row); }) ==
        "kvpop: copy_row: row is -1; it must be 0 to 2");
}

TEST_CASE("an embedding is its row in f32") {
  std::mt19937 random(16);
  for (const weight_type type : types) {
    const matrix m(type, 3, 70, random);
    std::vector<float> row(70);
    qwen3::copy_row(m.w, 2, row.data());
    for (std::size_t i = 0; i < row.size(); ++i) CHECK(static_cast<double>(row[i]) == m.values[2 * 70 + i]);
  }
}
