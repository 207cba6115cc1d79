#include "kvpop/core/checked.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "support/generators.hpp"
#include "support/message_of.hpp"

namespace {

using kvpop::index_t;
using kvpop_test::message_of;
constexpr index_t largest = std::numeric_limits<index_t>::max();

}  // namespace

TEST_CASE("sums and products are exact or errors: against 128-bit arithmetic") {
  for (int i = 0; i < kvpop_test::draws(10'000); ++i) {
    kvpop_test::generator random(72'000'000 + static_cast<std::uint64_t>(i));
    const auto draw = [&] { return static_cast<index_t>(random.bits() >> random.integer(1, 63)); };
    const index_t a = draw();
    const index_t b = draw();
    CAPTURE(a);
    CAPTURE(b);
    __extension__ typedef __int128 wide;
    const wide sum = static_cast<wide>(a) + b;
    const wide product = static_cast<wide>(a) * b;
    if (sum <= largest) {
      REQUIRE(kvpop::checked_add(a, b, "x") == static_cast<index_t>(sum));
    } else {
      REQUIRE_THROWS_AS(kvpop::checked_add(a, b, "x"), kvpop::error);
    }
    if (product <= largest) {
      REQUIRE(kvpop::checked_multiply(a, b, "x") == static_cast<index_t>(product));
    } else {
      REQUIRE_THROWS_AS(kvpop::checked_multiply(a, b, "x"), kvpop::error);
    }
  }
}

TEST_CASE("the edge, and the message") {
  CHECK(kvpop::checked_add(largest, 0, "x") == largest);
  CHECK(kvpop::checked_add(largest - 1, 1, "x") == largest);
  CHECK(kvpop::checked_multiply(largest, 1, "x") == largest);
  CHECK(kvpop::checked_multiply(largest, 0, "x") == 0);
  CHECK(message_of([] { kvpop::checked_add(largest, 1, "budget"); }) ==
        "kvpop: budget: 9223372036854775807 + 1 does not fit 63 bits");
  CHECK(message_of([] { kvpop::checked_multiply(index_t{1} << 32, index_t{1} << 31, "cache"); }) ==
        "kvpop: cache: 4294967296 * 2147483648 does not fit 63 bits");
}
