#include "kvpop/score/snapkv.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "kvpop/core/dtype.hpp"
#include "support/scorer_cases.hpp"

namespace {

using kvpop::index_t;
using kvpop::snapkv;
using kvpop::snapkv_budget;
using kvpop_test::generator;
using kvpop_test::numbers;

/// Priorities by slot of one head with room for the scratch.
template <class T>
std::vector<double> priorities(const snapkv& scorer, const std::vector<T>& keys, const std::vector<index_t>& position,
                               float scale, const numbers& memory) {
  const auto held = static_cast<index_t>(position.size());
  kvpop::carver count;
  static_cast<void>(kvpop::snapkv_scratch(count, held));
  std::vector<std::byte> storage(count.bytes());
  kvpop::carver carve({storage.data(), storage.size()}, "test");
  std::vector<double> priority(position.size(), -7.0);
  kvpop::snapkv_priorities(scorer, keys.data(), position.data(), held, scale, memory.data(), priority.data(),
                           kvpop::snapkv_scratch(carve, held));
  return priority;
}

/// By position: the whole attention matrix of the last queries, then the mean, then the published pooling
/// (avg_pool1d, kernel 7, padding 3, zeros counted) over what lies before the newest 32.
std::vector<double> oracle(const numbers& queries, const numbers& keys, std::int64_t prompt, std::int64_t group,
                           std::int64_t dim, float scale) {
  const std::int64_t voters = std::min<std::int64_t>(prompt, 32);
  std::vector<double> mean(static_cast<std::size_t>(prompt), 0.0);
  for (std::int64_t q = prompt - voters; q < prompt; ++q) {
    for (std::int64_t g = 0; g < group; ++g) {
      std::vector<double> weight;
      for (std::int64_t t = 0; t <= q; ++t) {
        weight.push_back(
            std::exp(static_cast<double>(scale) *
                     kvpop_test::oracle_dot(queries.data() + (q * group + g) * dim, keys.data() + t * dim, dim)));
      }
      const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
      for (std::size_t t = 0; t < weight.size(); ++t) {
        mean[t] += weight[t] / sum / static_cast<double>(voters * group);
      }
    }
  }
  std::vector<double> pooled(static_cast<std::size_t>(prompt), 0.0);
  for (std::int64_t t = 0; t < prompt - 32; ++t) {
    for (std::int64_t d = std::max<std::int64_t>(0, t - 3); d <= std::min(prompt - 33, t + 3); ++d) {
      pooled[static_cast<std::size_t>(t)] += mean[static_cast<std::size_t>(d)] / 7.0;
    }
  }
  return pooled;
}

TEST_CASE("priorities equal those of plain loops, for any prompt, order of slots and group") {
  generator random(330);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const std::int64_t prompt = random.chance(0.3) ? random.integer(1, 40) : random.integer(33, 75);
    const std::int64_t group = random.integer(1, 3);
    const std::int64_t dim = random.integer(1, 37);
    const snapkv scorer(group, dim);
    const numbers queries = kvpop_test::draw(random, prompt * group * dim, 1.0);
    const numbers keys = kvpop_test::draw(random, prompt * dim, 1.0);
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dim)));
    numbers memory(static_cast<std::size_t>(scorer.memory_size()), std::bit_cast<float>(0x7fc00000U));
    scorer.reset(memory.data());
    for (std::int64_t t = 0; t < prompt; ++t) {
      scorer.note_query(0, t, queries.data() + t * group * dim, memory.data());
    }
    std::vector<index_t> position(static_cast<std::size_t>(prompt));
    std::iota(position.begin(), position.end(), 0);
    for (std::size_t i = position.size(); i > 1; --i) {
      std::swap(position[i - 1],
                position[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i) - 1))]);
    }
    numbers by_slot;
    for (const index_t t : position) {
      by_slot.insert(by_slot.end(), keys.begin() + t * dim, keys.begin() + (t + 1) * dim);
    }
    const std::vector<double> want = oracle(queries, keys, prompt, group, dim, scale);
    const std::vector<double> got = priorities(scorer, by_slot, position, scale, memory);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double expected = want[static_cast<std::size_t>(position[i])];
      REQUIRE(std::abs(got[i] - expected) <= 1e-5 * expected);
      REQUIRE((position[i] < prompt - 32) == (got[i] > 0.0));
    }
    REQUIRE(priorities(scorer, by_slot, position, scale, memory) == got);
  }
}

TEST_CASE("16-bit keys are read as what they are") {
  generator random(331);
  const snapkv scorer(2, 8);
  const numbers keys = kvpop_test::draw(random, 50 * 8, 1.0);
  std::vector<kvpop::bfloat16> narrow;
  numbers rounded;
  for (const float k : keys) {
    narrow.emplace_back(k);
    rounded.push_back(static_cast<float>(narrow.back()));
  }
  numbers memory(static_cast<std::size_t>(scorer.memory_size()));
  scorer.reset(memory.data());
  for (std::int64_t t = 0; t < 50; ++t) {
    scorer.note_query(0, t, kvpop_test::draw(random, 16, 1.0).data(), memory.data());
  }
  std::vector<index_t> position(50);
  std::iota(position.begin(), position.end(), 0);
  CHECK(priorities(scorer, narrow, position, 0.3F, memory) == priorities(scorer, rounded, position, 0.3F, memory));
}

TEST_CASE("a needle: the one token that the last query looks at wins, its neighbours share") {
  const snapkv scorer(1, 1);
  numbers memory(static_cast<std::size_t>(scorer.memory_size()));
  scorer.reset(memory.data());
  std::vector<index_t> position(100);
  std::iota(position.begin(), position.end(), 0);
  numbers keys(100, 0.0F);
  keys[40] = 60.0F;
  const float one = 1.0F;
  for (std::int64_t t = 0; t < 100; ++t) {
    scorer.note_query(0, t, &one, memory.data());
  }
  const std::vector<double> got = priorities(scorer, keys, position, 1.0F, memory);
  for (std::size_t t = 0; t < 100; ++t) {
    CAPTURE(t);
    CHECK(got[t] == doctest::Approx(t >= 37 && t <= 43 ? 1.0 / 7.0 : 0.0).epsilon(1e-9));
  }
}

TEST_CASE("no query remembered, and queries with NaN") {
  const snapkv scorer(1, 2);
  numbers memory(static_cast<std::size_t>(scorer.memory_size()));
  scorer.reset(memory.data());
  std::vector<index_t> position(40);
  std::iota(position.begin(), position.end(), 0);
  const numbers keys(80, 1.0F);
  for (const double p : priorities(scorer, keys, position, 1.0F, memory)) {
    CHECK(p == 0.0);
  }
  const float bad[2] = {std::bit_cast<float>(0x7fc00000U), 1.0F};
  scorer.note_query(0, 39, bad, memory.data());
  const std::vector<double> got = priorities(scorer, keys, position, 1.0F, memory);
  CHECK(std::isnan(got[0]));
  CHECK(got[39] == 0.0);
}

TEST_CASE("the memory keeps the newest 32 queries and their positions") {
  const snapkv scorer(2, 3);
  CHECK(scorer.memory_size() == 32 * (2 * 3 + 2));
  numbers memory(static_cast<std::size_t>(scorer.memory_size()), 5.0F);
  scorer.reset(memory.data());
  CHECK(scorer.position(memory.data(), 0) == -1);
  CHECK(scorer.position(memory.data(), 31) == -1);
  for (index_t t = 0; t < 70; ++t) {
    const numbers q(6, static_cast<float>(t));
    scorer.note_query(1, t + (index_t{1} << 40), q.data(), memory.data());
  }
  for (index_t place = 0; place < 32; ++place) {
    const index_t t = place < 6 ? 64 + place : 32 + place;
    CHECK(scorer.position(memory.data(), place) == t + (index_t{1} << 40));
    CHECK(scorer.queries(memory.data(), place)[5] == static_cast<float>(t));
  }
  CHECK(scorer.attended(3.5, 0.25F) == 3.5);
}

TEST_CASE("sizes are checked") {
  CHECK(snapkv_budget(128, 4) == kvpop::budget{4, 32, 92});
  CHECK(snapkv_budget(32, 0) == kvpop::budget{0, 32, 0});
  CHECK_THROWS_WITH_AS(static_cast<void>(snapkv_budget(31, 0)),
                       "kvpop: snapkv_budget: entries is 31; it must be at least 32, the window", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(snapkv_budget(40, 9)),
                       "kvpop: snapkv_budget: sinks is 9; it must be at most entries - 32", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(snapkv_budget(40, -1)),
                       "kvpop: snapkv_budget: sinks is -1; it must be at least 0", kvpop::error);
  CHECK_THROWS_WITH_AS(snapkv(0, 4), "kvpop: snapkv: group is 0; it must be in 1 .. 1024", kvpop::error);
  CHECK_THROWS_WITH_AS(snapkv(1, 8193), "kvpop: snapkv: key_dim is 8193; it must be in 1 .. 8192", kvpop::error);
}

}  // namespace
