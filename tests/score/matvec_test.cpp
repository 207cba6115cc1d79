#include "kvpop/score/matvec.hpp"

#include <doctest/doctest.h>

#include "support/scorer_cases.hpp"

namespace {

using kvpop_test::generator;
using kvpop_test::numbers;

/// The order the header promises, spelled out: sixteen running sums, folded in halves, then what is left over.
double spelled_out(const float* a, const float* b, std::int64_t n) {
  double sum[16] = {};
  const auto product = [&](std::int64_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); };
  const std::int64_t j = n / 16 * 16;
  for (std::int64_t i = 0; i < j; ++i) {
    sum[i % 16] += product(i);
  }
  double s[8];
  for (int i = 0; i < 8; ++i) {
    s[i] = sum[i] + sum[i + 8];
  }
  for (std::int64_t i = j; i < n; ++i) {
    s[(i - j) % 8] += product(i);
  }
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

TEST_CASE("a row's sum has the same bits on every instruction set and in every block of rows") {
  generator random(303);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const std::int64_t n = random.integer(1, 130);
    const std::int64_t rows = random.integer(1, 9);
    const numbers w = kvpop_test::draw(random, rows * n, 1.0);
    const numbers x = kvpop_test::draw(random, n, 1.0);
    numbers out(static_cast<std::size_t>(rows) + 1, 99.0F);
    kvpop::matvec(w.data(), rows, n, x.data(), out.data());
    for (std::int64_t i = 0; i < rows; ++i) {
      const double want = spelled_out(w.data() + i * n, x.data(), n);
      REQUIRE(out[static_cast<std::size_t>(i)] == static_cast<float>(want));
      REQUIRE(kvpop::dot_double(w.data() + i * n, x.data(), n) == want);
      REQUIRE(want == doctest::Approx(kvpop_test::oracle_dot(w.data() + i * n, x.data(), n)).epsilon(1e-12));
    }
    REQUIRE(out[static_cast<std::size_t>(rows)] == 99.0F);
  }
}

TEST_CASE("a needle in every column, tails included") {
  for (const std::int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 97, 130}) {
    numbers w(static_cast<std::size_t>(3 * n), 0.0F);
    numbers x(static_cast<std::size_t>(n), 1.0F);
    for (std::int64_t j = 0; j < n; ++j) {
      w[static_cast<std::size_t>(n + j)] = static_cast<float>(j + 1);
      float out[3] = {-1.0F, -1.0F, -1.0F};
      kvpop::matvec(w.data(), 3, n, x.data(), out);
      CHECK(out[0] == 0.0F);
      CHECK(out[1] == static_cast<float>(j + 1));
      CHECK(out[2] == 0.0F);
      w[static_cast<std::size_t>(n + j)] = 0.0F;
    }
  }
}

}  // namespace
