#include "kvpop/attention/transposed_tile.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/generators.hpp"  // generator, draws

using kvpop::index_t;
using kvpop::transposed_kernel::key_bounds;
using kvpop::transposed_kernel::panel_cover;

namespace {

TEST_CASE("a panel is dead when no query of the tile sees a key, and whole when all see all: all small cases") {
  kvpop_test::generator random(750);
  for (int draw = 0; draw < kvpop_test::draws(2000); ++draw) {
    const index_t count = random.integer(1, 5), begin = random.integer(0, 9), rows = random.integer(1, 6);
    std::vector<index_t> first, end;
    for (index_t i = 0; i < count; ++i) {
      first.push_back(random.integer(0, 12));
      end.push_back(random.integer(first.back(), 15));
    }
    const panel_cover cover = panel_cover::of({first.data(), end.data()}, count);
    bool any = false, all = true;
    for (index_t d = begin; d < begin + rows; ++d) {
      for (std::size_t i = 0; i < first.size(); ++i) {
        const bool seen = first[i] <= d && d < end[i];
        any |= seen;
        all &= seen;
      }
    }
    // `none` may miss a hole between two keys' queries; it must never call a live tile dead. `all` is exact.
    if (cover.none(begin, rows)) REQUIRE_FALSE(any);
    REQUIRE(cover.all(begin, rows) == all);
  }
}

TEST_CASE("a masked tile counts exactly the queries within a key's bounds, at every lane") {
  struct counting {
    static kvpop::simd::vec initial() noexcept { return kvpop::simd::vec{}; }
    static kvpop::simd::vec take(kvpop::simd::vec state, kvpop::simd::vec, kvpop::simd::vec) noexcept {
      return state + kvpop::simd::broadcast(1.0F);
    }
    static kvpop::simd::vec join(kvpop::simd::vec a, kvpop::simd::vec b) noexcept { return a + b; }
    static float finish(float state, index_t) noexcept { return state; }
  };
  kvpop_test::generator random(751);
  constexpr index_t panel = kvpop::transposed_kernel::panel;
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t begin = random.integer(0, 100), rows = random.integer(1, kvpop::transposed_query_tile);
    std::vector<index_t> first, end;
    for (index_t i = 0; i < panel; ++i) {
      first.push_back(random.integer(0, 200));
      end.push_back(random.integer(first.back(), 300));
    }
    const std::vector<float> logits(static_cast<std::size_t>(rows * panel), 0.5F), lse(static_cast<std::size_t>(rows));
    std::vector<float> state(static_cast<std::size_t>(panel), 2.0F);
    kvpop::transposed_kernel::reduce<true>(counting{}, logits.data(), lse.data(), begin, rows, 0.0F,
                                           key_bounds{first.data(), end.data()}, state.data());
    for (std::size_t i = 0; i < state.size(); ++i) {
      index_t want = 2;
      for (index_t d = begin; d < begin + rows; ++d) want += first[i] <= d && d < end[i] ? 1 : 0;
      REQUIRE(state[i] == static_cast<float>(want));
    }
  }
}

}  // namespace
