#include "kvpop/select/priority.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "support/generators.hpp"  // generator
#include "support/golden.hpp"      // golden

using kvpop::fold_decay;
using kvpop::index_t;
using kvpop_test::generator;

namespace {

std::uint64_t bits_of(const double& x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

bool is_nan(const double& x) { return bits_of(x) << 1U > 0xffe0000000000000U; }

float float_of(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

}  // namespace

TEST_CASE("fold_decay: the priorities of the golden chains, exactly") {
  for (const std::string chain : {"chain_mlp", "chain_mlstm"}) {
    const auto r = golden::tensor<float>(chain + ".r");
    const auto g = golden::tensor<double>(chain + ".g");
    const auto priority = golden::tensor<double>(chain + ".priority");
    for (std::int64_t head = 0; head < r.shape[0]; ++head) {
      const auto log_gamma = static_cast<float>(-std::log1p(std::exp(g.values[static_cast<std::size_t>(head)])));
      for (std::int64_t t = 0; t < r.shape[1]; ++t) {
        const double folded = fold_decay(r.row(head)[t], log_gamma, t);
        const double& expected = priority.row(head)[t];
        // A token that has no score yet is NaN, of whatever payload.
        const bool same = is_nan(expected) ? is_nan(folded) : bits_of(folded) == bits_of(expected);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("fold_decay: rounds once, and below 2^29 as the separate product and difference do") {
  generator g(1);
  for (int draw = 0; draw < 20000; ++draw) {
    const float score = g.normal() * std::ldexp(1.0F, static_cast<int>(g.integer(-20, 20)));
    const float log_gamma = -std::fabs(g.normal()) * std::ldexp(1.0F, static_cast<int>(g.integer(-30, 3)));
    const index_t position = g.integer(0, (index_t{1} << 29) - 1);
    const volatile double product = static_cast<double>(position) * static_cast<double>(log_gamma);
    const double difference = static_cast<double>(score) - product;
    CHECK(bits_of(fold_decay(score, log_gamma, position)) == bits_of(difference));
  }
}

TEST_CASE("fold_decay: one rounding where the product is not exact") {
  // 2^40 + 1 times 1 + 2^-23 needs 64 bits; the score cancels the product's leading ones and leaves what a rounded
  // product would have lost: 2^40 + 2^17 + 1 + 2^-23 less 2^40 + 2^17 is 1 + 2^-23.
  const index_t position = (index_t{1} << 40) + 1;
  const float log_gamma = -(1.0F + 0x1p-23F);
  const float score = -(0x1p40F + 0x1p17F);
  CHECK(fold_decay(score, log_gamma, position) == 1.0 + 0x1p-23);
}

TEST_CASE("fold_decay: no decay leaves the score as it is, denormals included") {
  for (const std::uint32_t bits : {0x3f800000U, 0xbf800001U, 0x00800000U, 0x00000001U, 0x807fffffU, 0x7f7fffffU}) {
    const double folded = fold_decay(float_of(bits), 0.0F, 12345);
    // A float as a double, from its bits: fraction times a power of two, both exact.
    const int exponent = static_cast<int>((bits >> 23U) & 0xffU);
    const double fraction = static_cast<double>(bits & 0x7fffffU) + (exponent == 0 ? 0.0 : 8388608.0);
    const double magnitude = std::ldexp(fraction, (exponent == 0 ? 1 : exponent) - 150);
    CHECK(bits_of(folded) == bits_of(bits >> 31U != 0 ? -magnitude : magnitude));
  }
}

TEST_CASE("fold_decay: a decay of denormal size is not lost") {
  CHECK(bits_of(fold_decay(0.0F, float_of(0x80000001U), 3)) == bits_of(3 * 0x1p-149));
}

TEST_CASE("fold_decay: NaN stays NaN, an infinity stays one") {
  CHECK(is_nan(fold_decay(float_of(0x7fc00000U), -0.5F, 7)));
  CHECK(is_nan(fold_decay(float_of(0xffffffffU), 0.0F, 7)));
  CHECK(bits_of(fold_decay(float_of(0x7f800000U), -0.5F, 7)) == 0x7ff0000000000000U);
  CHECK(bits_of(fold_decay(float_of(0xff800000U), -0.5F, 7)) == 0xfff0000000000000U);
}
