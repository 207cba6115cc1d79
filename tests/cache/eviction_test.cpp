#include "kvpop/cache/eviction.hpp"

#include <doctest/doctest.h>

#include <type_traits>

TEST_CASE("nothing evicted is position -1 and slot -1") {
  constexpr kvpop::eviction none;
  static_assert(none.position == -1 && none.slot == -1);
  static_assert(none == kvpop::eviction{-1, -1} && !(none == kvpop::eviction{-1, 0}) &&
                !(none == kvpop::eviction{0, -1}));
  static_assert(std::is_trivially_copyable_v<kvpop::eviction>);
  CHECK(kvpop::eviction_view().data() == nullptr);
}
