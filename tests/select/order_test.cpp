#include "kvpop/select/order.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <limits>

#include "support/select_oracle.hpp"  // place_of, priority_bits

using kvpop::index_t;
using kvpop::order_key;
using kvpop::order_key_of_bits;
using kvpop::outranks;
using kvpop::rank;
using kvpop::rank_of;
using kvpop_test::generator;

static_assert(order_key(-0.0) == order_key(0.0));
static_assert(order_key(1.0) > order_key(0.5) && order_key(-1.0) < order_key(-0.5));
static_assert(order_key(5e-324) > order_key(0.0) && order_key(-5e-324) < order_key(0.0));
static_assert(outranks({1, 5}, {1, 4}) && !outranks({1, 4}, {1, 5}) && !outranks({1, 4}, {1, 4}));
static_assert(outranks({2, 0}, {1, 9}));

TEST_CASE("order_key: the landmarks, from lowest to highest") {
  constexpr std::uint64_t landmarks[] = {
      0xfff0000000000000U,  // -inf
      0xffefffffffffffffU,  // the lowest number
      0xbff0000000000000U,  // -1
      0x8010000000000000U,  // the smallest normal number, negative
      0x800fffffffffffffU,  // the largest denormal, negative
      0x8000000000000001U,  // the smallest denormal, negative
      0x0000000000000000U,  // 0
      0x0000000000000001U, 0x000fffffffffffffU, 0x0010000000000000U,
      0x3ff0000000000000U, 0x7fefffffffffffffU, 0x7ff0000000000000U,  // inf
  };
  std::uint64_t last = order_key_of_bits(0x7ff8000000000000U);  // NaN
  CHECK(last == 0);
  for (const std::uint64_t bits : landmarks) {
    CHECK_MESSAGE(order_key_of_bits(bits) > last, bits);
    last = order_key_of_bits(bits);
  }
}

TEST_CASE("order_key: every NaN has the one lowest key, and both zeros have one") {
  generator g(1);
  for (int draw = 0; draw < 2000; ++draw) {
    const std::uint64_t payload = 1 + g.bits() % ((std::uint64_t{1} << 52U) - 1);
    const std::uint64_t sign = g.chance(0.5) ? std::uint64_t{1} << 63U : 0;
    const double nan = std::bit_cast<double>(sign | 0x7ff0000000000000U | payload);
    CHECK(order_key(nan) == 0);
  }
  CHECK(order_key_of_bits(0x8000000000000000U) == order_key_of_bits(0));
}

TEST_CASE("outranks is the order of the oracle, which takes doubles apart by hand") {
  generator g(2);
  for (int draw = 0; draw < 20000; ++draw) {
    double a = 0;
    double b = 0;
    const std::uint64_t bits_a = kvpop_test::priority_bits(g);
    const std::uint64_t bits_b = g.chance(0.2) ? bits_a : kvpop_test::priority_bits(g);
    std::memcpy(&a, &bits_a, sizeof(a));
    std::memcpy(&b, &bits_b, sizeof(b));
    const index_t base = g.pick<index_t>({0, index_t{1} << 31, index_t{1} << 40, index_t{1} << 62});
    const index_t at_a = base + g.integer(0, 2);
    const index_t at_b = base + g.integer(0, 2);
    CAPTURE(bits_a);
    CAPTURE(bits_b);
    CHECK(outranks(rank_of(a, at_a), rank_of(b, at_b)) ==
          (kvpop_test::place_of(a, at_a) > kvpop_test::place_of(b, at_b)));
#if !defined(__FAST_MATH__)
    if (a < b) {
      CHECK(outranks(rank_of(b, at_b), rank_of(a, at_a)));
    }
#endif
  }
}
