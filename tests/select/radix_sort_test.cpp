#include "kvpop/select/radix_sort.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "support/select_oracle.hpp"  // length

using kvpop::index_t;
using kvpop::keyed;
using kvpop_test::generator;

static_assert(noexcept(kvpop::radix_sort(nullptr, nullptr, 0)));

TEST_CASE("radix_sort: what a stable sort gives, whichever bytes differ") {
  generator g(1);
  for (int draw = 0; draw < kvpop_test::draws(3000); ++draw) {
    const index_t n = g.chance(0.02) ? 5000 : kvpop_test::length(g, 300);
    std::uint64_t varying = ~std::uint64_t{0};
    if (g.chance(0.7)) {
      varying = g.bits() & g.bits() & g.bits();
    }
    if (g.chance(0.1)) {
      varying = 0;
    }
    const std::uint64_t common = g.bits();
    std::vector<keyed> items;
    for (index_t i = 0; i < n; ++i) {
      items.push_back({(common & ~varying) | (g.bits() & varying), i});
    }
    std::vector<keyed> expected = items;
    std::sort(expected.begin(), expected.end(), [](const keyed& a, const keyed& b) {
      return std::pair(a.key, a.value) < std::pair(b.key, b.value);  // stable: the values count up
    });
    std::vector<keyed> scratch(items.size());
    kvpop::radix_sort(items.data(), scratch.data(), n);
    for (std::size_t i = 0; i < items.size(); ++i) {
      REQUIRE(items[i].key == expected[i].key);
      REQUIRE(items[i].value == expected[i].value);
    }
  }
}
