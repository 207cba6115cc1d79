#include "kvpop/core/error.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "support/message_of.hpp"

namespace {

using kvpop_test::message_of;

}  // namespace

TEST_CASE("an error is a runtime_error whose message begins with the library's name") {
  static_assert(std::is_base_of_v<std::runtime_error, kvpop::error>);
  CHECK(message_of([] { kvpop::fail("something"); }) == "kvpop: something");
  CHECK_THROWS_AS(kvpop::fail("caught as the standard's"), std::runtime_error);
}

TEST_CASE("a precondition names argument, value and limit, and says nothing when it holds") {
  CHECK(message_of([] { kvpop::expects(false, "budget.window", 0, "at least 1"); }) ==
        "kvpop: budget.window is 0; it must be at least 1");
  CHECK(message_of([] { kvpop::expects(false, "x", std::numeric_limits<kvpop::index_t>::min(), "larger"); }) ==
        "kvpop: x is -9223372036854775808; it must be larger");
  CHECK(message_of([] { kvpop::expects(true, "x", 1, "anything"); }) == "no error");
}

TEST_CASE("two sizes that must agree") {
  CHECK(message_of([] { kvpop::expects_equal("append: k.extent(head)", 4, 8, "the cache"); }) ==
        "kvpop: append: k.extent(head) is 4; the cache has 8");
  CHECK(message_of([] { kvpop::expects_equal("x", -8, -8, "the cache"); }) == "no error");
}
