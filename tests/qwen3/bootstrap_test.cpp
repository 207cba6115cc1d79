#include "qwen3/bootstrap.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using qwen3::paired_ratio;
using counts = std::vector<double>;

TEST_CASE("nothing right in the full model: no retention") {
  CHECK_FALSE(paired_ratio(counts{0, 0}, counts{0, 0}).has_value());
}

TEST_CASE("retention is the ratio of sums") {
  const auto r = paired_ratio(counts{1, 5, 0}, counts{10, 5, 1});
  REQUIRE(r.has_value());
  CHECK(r->value == doctest::Approx(6.0 / 16));
  CHECK(r->low < r->value);
  CHECK(r->high > r->value);
}

TEST_CASE("lines are drawn in pairs: a method that is equal on every line has no uncertainty") {
  const counts full{3, 9, 1, 12, 5};
  const auto r = paired_ratio(full, full);
  CHECK(r->low == 1);
  CHECK(r->high == 1);
  const auto half = paired_ratio(counts{1, 1}, counts{2, 2});
  CHECK(half->low == 0.5);
  CHECK(half->high == 0.5);
}

TEST_CASE("two lines: the interval spans both, and draws with nothing right in the full model are left out") {
  const auto r = paired_ratio(counts{4, 0}, counts{4, 4});
  CHECK(r->low == 0);
  CHECK(r->high == 1);
  const auto one_sided = paired_ratio(counts{2, 0}, counts{4, 0});
  CHECK(one_sided->low == 0.5);
  CHECK(one_sided->high == 0.5);
}

TEST_CASE("the interval covers as often as it says: 40 lines, a known ratio") {
  // 200 experiments whose lines have 10 answers, each kept with probability 0.6 by a fixed generator.
  std::uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  int covered = 0;
  for (int experiment = 0; experiment < 200; ++experiment) {
    counts kept(40), full(40, 10);
    for (auto& line : kept)
      for (int i = 0; i < 10; ++i) line += uniform() < 0.6;
    const auto r = paired_ratio(kept, full, 1000, static_cast<std::uint64_t>(experiment));
    covered += r->low <= 0.6 && 0.6 <= r->high;
  }
  CHECK(covered >= 180);
  CHECK(covered <= 198);
}

TEST_CASE("equal seeds give equal bits") {
  const counts kept{1, 2, 3, 0}, full{3, 3, 3, 3};
  CHECK(paired_ratio(kept, full)->low == paired_ratio(kept, full)->low);
}
