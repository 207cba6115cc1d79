#include "kvpop/score/random.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using kvpop::random_scorer;

float score(std::uint64_t seed, kvpop::index_t layer, kvpop::index_t head, kvpop::index_t position) {
  return random_scorer(seed, layer).score(head, position, nullptr, nullptr);
}

TEST_CASE("the generator is pinned: the same evictions for ever") {
  CHECK(score(0U, 0, 0, 0) == 2175092.0F / 16777216.0F);
  CHECK(score(1U, 0, 0, 0) == 14844309.0F / 16777216.0F);
  CHECK(score(0U, 1, 0, 0) == 13697154.0F / 16777216.0F);
  CHECK(score(0U, 0, 1, 0) == 6464749.0F / 16777216.0F);
  CHECK(score(0U, 0, 0, 1) == 6917627.0F / 16777216.0F);
  CHECK(score(2607U, 35, 7, 16383) == 5571843.0F / 16777216.0F);
  CHECK(score(~std::uint64_t{0}, 0, 3, kvpop::index_t{1} << 40) == 14061070.0F / 16777216.0F);
}

TEST_CASE("each of seed, layer, head and position changes the score") {
  const float base = score(1, 2, 3, 4);
  CHECK(base == score(1, 2, 3, 4));
  CHECK(base != score(2, 2, 3, 4));
  CHECK(base != score(1, 3, 3, 4));
  CHECK(base != score(1, 2, 4, 4));
  CHECK(base != score(1, 2, 3, 5));
  CHECK(score(1, 2, 3, 4) != score(2, 1, 3, 4));
  CHECK(score(1, 2, 3, 4) != score(1, 2, 4, 3));
}

TEST_CASE("scores are uniform on [0, 1)") {
  constexpr int cells = 64;
  constexpr int draws = 64 * 4096;
  for (const kvpop::index_t head : {0, 1, 7}) {
    std::vector<int> count(cells, 0);
    for (int i = 0; i < draws; ++i) {
      const float r = score(42, 3, head, i);
      REQUIRE(r >= 0.0F);
      REQUIRE(r < 1.0F);
      ++count[static_cast<std::size_t>(r * cells)];
    }
    double chi = 0.0;
    for (const int c : count) {
      const double gap = c - draws / cells;
      chi += gap * gap / (draws / cells);
    }
    CHECK(chi < 63 + 6 * std::sqrt(2.0 * 63));  // mean and deviation of chi-square with 63 degrees of freedom
    CHECK(chi > 63 - 6 * std::sqrt(2.0 * 63));
  }
}

TEST_CASE("neighbouring positions, heads and layers are unrelated") {
  constexpr int draws = 1 << 16;
  double position = 0.0;
  double head = 0.0;
  double layer = 0.0;
  for (int i = 0; i < draws; ++i) {
    const double r = static_cast<double>(score(7, 1, 2, i)) - 0.5;
    position += r * (static_cast<double>(score(7, 1, 2, i + 1)) - 0.5);
    head += r * (static_cast<double>(score(7, 1, 3, i)) - 0.5);
    layer += r * (static_cast<double>(score(7, 2, 2, i)) - 0.5);
  }
  const double deviation = std::sqrt(static_cast<double>(draws)) / 12.0;
  CHECK(std::abs(position) < 5 * deviation);
  CHECK(std::abs(head) < 5 * deviation);
  CHECK(std::abs(layer) < 5 * deviation);
}

}  // namespace
