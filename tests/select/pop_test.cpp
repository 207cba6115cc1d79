#include "kvpop/select/pop.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>

#include "support/select_oracle.hpp"  // place_of, priorities

using kvpop::index_t;
using kvpop::pop;
using kvpop_test::generator;
using kvpop_test::place;
using kvpop_test::place_of;

static_assert(noexcept(pop(nullptr, nullptr, nullptr, 0, {0, 0})));

namespace {

struct head {
  std::vector<double> priority;
  std::vector<index_t> position;
  std::vector<std::uint8_t> pinned;

  [[nodiscard]] index_t slots() const { return static_cast<index_t>(priority.size()); }
  [[nodiscard]] index_t pop(kvpop::position_range range) const {
    return kvpop::pop(priority.data(), position.data(), pinned.data(), slots(), range);
  }
};

/// n slots in no order: distinct positions from `base` on, some slots empty, a few pinned.
head random_head(generator& g, index_t n, index_t base) {
  head h{kvpop_test::priorities(g, n), {}, {}};
  for (index_t i = 0; i < n; ++i) {
    h.position.push_back(g.chance(0.05) ? -1 : base + 3 * i);
    h.pinned.push_back(g.chance(0.1) ? static_cast<std::uint8_t>(g.integer(1, 255)) : 0);
  }
  for (index_t i = n - 1; i > 0; --i) {
    std::swap(h.position[static_cast<std::size_t>(i)], h.position[static_cast<std::size_t>(g.integer(0, i))]);
  }
  return h;
}

index_t oracle(const head& h, kvpop::position_range range) {
  index_t weakest = -1;
  std::optional<place> lowest;
  for (std::size_t i = 0; i < h.priority.size(); ++i) {
    if (h.position[i] < range.first || h.position[i] > range.last || h.pinned[i] != 0) {
      continue;
    }
    const place here = place_of(h.priority[i], h.position[i]);
    if (!lowest || here < *lowest) {
      lowest = here;
      weakest = static_cast<index_t>(i);
    }
  }
  return weakest;
}

}  // namespace

TEST_CASE("pop: the oracle's slot, at all sizes, positions near 2^31, 2^40 and 2^62 included") {
  generator g(1);
  for (int draw = 0; draw < kvpop_test::draws(20000); ++draw) {
    const index_t n = kvpop_test::length(g, 300);
    const index_t base = g.pick<index_t>({0, (index_t{1} << 31) - 300, (index_t{1} << 40) - 1, index_t{1} << 62});
    const head h = random_head(g, n, base);
    const index_t first = base + g.integer(0, 3 * n / 2);
    const index_t last = g.chance(0.1) ? first - 1 : first + g.integer(0, 3 * n);
    CAPTURE(n);
    REQUIRE(h.pop({first, last}) == oracle(h, {first, last}));
  }
}

TEST_CASE("pop: every slot can be the one, alone among better, equal and excluded slots") {
  for (const index_t n : {1, 7, 31, 64, 65, 129, 200}) {
    for (index_t lowest = 0; lowest < n; ++lowest) {
      head h;
      for (index_t i = 0; i < n; ++i) {
        h.priority.push_back(i == lowest ? -1.0 : 0.0);
        h.position.push_back(n - i);
        h.pinned.push_back(0);
      }
      CHECK(h.pop({1, n}) == lowest);
      h.priority[static_cast<std::size_t>(lowest)] = 0.0;  // all equal: the earliest position, which is the last slot
      CHECK(h.pop({1, n}) == n - 1);
      const index_t only = n - lowest;
      CHECK(h.pop({only, only}) == lowest);
      std::fill(h.pinned.begin(), h.pinned.end(), std::uint8_t{1});
      CHECK(h.pop({1, n}) == -1);
      h.pinned[static_cast<std::size_t>(lowest)] = 0;
      CHECK(h.pop({1, n}) == lowest);
    }
  }
}

TEST_CASE("pop: no slots, nothing in the range, no pins at all") {
  CHECK(pop(nullptr, nullptr, nullptr, 0, {0, 10}) == -1);
  const double priority[] = {2.0, 1.0, 3.0};
  const index_t position[] = {5, 6, -1};
  CHECK(pop(priority, position, nullptr, 3, {0, 4}) == -1);
  CHECK(pop(priority, position, nullptr, 3, {7, 100}) == -1);
  CHECK(pop(priority, position, nullptr, 3, {6, 5}) == -1);
  CHECK(pop(priority, position, nullptr, 3, {0, 100}) == 1);
}

TEST_CASE("pop: evicting one token a step keeps the top-k of all tokens that were ever eligible") {
  generator g(2);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t tokens = g.integer(1, 90);
    const kvpop_test::regions r{g.integer(0, 5), g.integer(1, 9), g.integer(0, 23)};
    const index_t capacity = r.sinks + r.window + r.topk;
    const index_t offset = g.pick<index_t>({0, (index_t{1} << 31) - 40, (index_t{1} << 40) - 40});
    const std::vector<double> priority = kvpop_test::priorities(g, tokens);
    const std::vector<std::uint8_t> unpinned(priority.size(), 0);
    head h;
    for (index_t q = 0; q < tokens; ++q) {
      const double own = priority[static_cast<std::size_t>(q)];
      if (q < capacity) {
        h.priority.push_back(own);
        h.position.push_back(offset + q);
        h.pinned.push_back(0);
      } else {
        const index_t slot = h.pop({offset + r.sinks, offset + q - r.window});
        REQUIRE(slot >= 0);
        h.priority[static_cast<std::size_t>(slot)] = own;
        h.position[static_cast<std::size_t>(slot)] = offset + q;
      }
      std::vector<index_t> held;
      for (const index_t position : h.position) {
        const index_t t = position - offset;
        if (t >= r.sinks && t <= q - r.window) {
          held.push_back(t);
        }
      }
      std::sort(held.begin(), held.end());
      REQUIRE(held == kvpop_test::long_range_at(q, priority, unpinned, r));
    }
  }
}
