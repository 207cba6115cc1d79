#include "kvpop/select/select_kth.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "support/select_oracle.hpp"  // length

using kvpop::index_t;
using kvpop::kth_key;
using kvpop_test::generator;

static_assert(noexcept(kvpop::select_kth(nullptr, 0, 0, nullptr)));

namespace {

void check_against_sort(const std::vector<std::uint64_t>& keys, index_t k) {
  std::vector<std::uint64_t> sorted = keys;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  std::vector<std::uint64_t> work = keys;
  std::vector<std::uint32_t> bins(static_cast<std::size_t>(2 * kvpop::select_bins));
  const kth_key found = kvpop::select_kth(work.data(), static_cast<index_t>(work.size()), k, bins.data());
  const std::uint64_t expected = sorted[static_cast<std::size_t>(k - 1)];
  CAPTURE(k);
  REQUIRE(found.key == expected);
  REQUIRE(found.equal == std::count(keys.begin(), keys.end(), expected));
  REQUIRE(found.among_best == std::count(sorted.begin(), sorted.begin() + k, expected));
}

}  // namespace

TEST_CASE("select_kth: what a full sort gives, for every k of small rows") {
  generator g(1);
  for (index_t n = 1; n <= 40; ++n) {
    const std::uint64_t varying = g.bits() & g.bits();
    std::vector<std::uint64_t> keys;
    for (index_t i = 0; i < n; ++i) {
      keys.push_back(g.bits() & varying);
    }
    for (index_t k = 1; k <= n; ++k) {
      check_against_sort(keys, k);
    }
  }
}

TEST_CASE("select_kth: what a full sort gives, on hard keys too") {
  generator g(2);
  for (int draw = 0; draw < kvpop_test::draws(2000); ++draw) {
    const index_t n = g.chance(0.05) ? g.integer(1024, 9000) : std::max<index_t>(1, kvpop_test::length(g, 300));
    const std::int64_t kind = g.integer(0, 5);
    const std::uint64_t common = g.bits();
    std::vector<std::uint64_t> keys;
    for (index_t i = 0; i < n; ++i) {
      const auto u = static_cast<std::uint64_t>(i);
      switch (kind) {
        case 0:
          keys.push_back(common);
          break;
        case 1:
          keys.push_back(common + u);
          break;
        case 2:  // each round of digits tells only a few keys apart
          keys.push_back(std::uint64_t{1} << (g.bits() % 64));
          break;
        case 3:
          keys.push_back(common ^ (g.bits() % 3));
          break;
        default:
          keys.push_back(g.bits());
      }
    }
    check_against_sort(keys, g.pick<index_t>({1, n, (n + 1) / 2, g.integer(1, n)}));
  }
}
