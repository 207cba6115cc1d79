#include "kvpop/core/visit.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

#include "support/message_of.hpp"

namespace {

using kvpop::index_t;
using kvpop::visit;
using kvpop_test::message_of;

}  // namespace

TEST_CASE("the value becomes a constant, and the result is f's") {
  const auto twice = [](auto dim) {
    constexpr index_t d = dim();  // a constant expression
    static_assert(d == 64 || d == 80 || d == 128);
    return 2 * d;
  };
  CHECK(visit<64, 80, 128>(64, twice) == 128);
  CHECK(visit<64, 80, 128>(80, twice) == 160);
  CHECK(visit<64, 80, 128>(128, twice) == 256);
  static_assert(std::is_same_v<decltype(visit<64, 128>(64, twice)), index_t>);
}

TEST_CASE("f is called once, with the one value, and may return nothing") {
  index_t seen = 0;
  int calls = 0;
  visit<1, 3, 7>(3, [&](auto dim) {
    seen = dim();
    ++calls;
  });
  CHECK(seen == 3);
  CHECK(calls == 1);
  static_assert(std::is_void_v<decltype(visit<1>(1, [](auto) {}))>);
}

TEST_CASE("a reference comes back as one") {
  int store[2] = {5, 6};
  int& chosen = visit<0, 1>(1, [&](auto i) -> int& { return store[i()]; });
  chosen = 9;
  CHECK(store[1] == 9);
}

TEST_CASE("a value outside the list is an error that names the list, and f is not called") {
  int calls = 0;
  CHECK(message_of([&] { visit<64, 128>(96, [&](auto) { ++calls; }); }) ==
        "kvpop: visit: 96 is not among the compiled values 64, 128");
  CHECK(message_of([&] { visit<64>(-1, [&](auto) { return ++calls; }); }) ==
        "kvpop: visit: -1 is not among the compiled values 64");
  CHECK(calls == 0);
}
