#include "kvpop/core/memory.hpp"

#include <doctest/doctest.h>

#include <type_traits>

TEST_CASE("memory spaces are distinct tags that do not convert") {
  static_assert(std::is_empty_v<kvpop::host_memory> && std::is_empty_v<kvpop::device_memory>);
  static_assert(!std::is_same_v<kvpop::host_memory, kvpop::device_memory>);
  static_assert(!std::is_convertible_v<kvpop::host_memory, kvpop::device_memory>);
  static_assert(!std::is_convertible_v<kvpop::device_memory, kvpop::host_memory>);
  CHECK(std::is_trivially_copyable_v<kvpop::device_memory>);
}
