#include "kvpop/cache/budget.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "support/cache_block.hpp"

using namespace kvpop_test;
using kvpop::budget;

namespace {

std::string refused(const budget& b) {
  return message_of([&] { b.validate(); });
}

constexpr index_t largest = std::numeric_limits<index_t>::max();

}  // namespace

TEST_CASE("a budget's parts add up to its capacity") {
  constexpr budget b{.sinks = 4, .window = 256, .topk = 3836};
  static_assert(b.capacity() == 4096);
  static_assert(budget{}.sinks == 4 && budget{}.window == 256 && budget{}.topk == 0);
  static_assert(b == budget{.sinks = 4, .window = 256, .topk = 3836} && !(b == budget{}));
  CHECK(refused(b) == "no error");
  CHECK(refused({.sinks = 0, .window = 1, .topk = 0}) == "no error");
  CHECK(refused({.sinks = 0, .window = (index_t{1} << 31) - 1, .topk = 0}) == "no error");
}

TEST_CASE("a budget that cannot be is refused by name, value and limit") {
  CHECK(refused({.sinks = -1, .window = 4, .topk = 0}) == "kvpop: budget.sinks is -1; it must be at least 0");
  CHECK(refused({.sinks = 0, .window = 0, .topk = 9}) ==
        "kvpop: budget.window is 0; it must be at least 1: a token always sees itself");
  CHECK(refused({.sinks = 0, .window = -7, .topk = 9}) ==
        "kvpop: budget.window is -7; it must be at least 1: a token always sees itself");
  CHECK(refused({.sinks = 0, .window = 4, .topk = -3}) == "kvpop: budget.topk is -3; it must be at least 0");
  CHECK(refused({.sinks = 0, .window = 1, .topk = (index_t{1} << 31) - 1}) ==
        "kvpop: budget.capacity() is 2147483648; it must be less than 2^31");
  CHECK(refused({.sinks = largest, .window = 1, .topk = 0}) ==
        "kvpop: budget: 9223372036854775807 + 1 does not fit 63 bits");
  CHECK(refused({.sinks = 0, .window = 1, .topk = largest}) ==
        "kvpop: budget: 1 + 9223372036854775807 does not fit 63 bits");
}
