#include "kvpop/score/replay.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

using kvpop::index_t;

TEST_CASE("the score of a token is its death time") {
  const std::vector<index_t> death = {5, INT64_MAX, 3, 4, INT64_MAX, 2};  // [2 heads, 3 tokens]
  const kvpop::replay scorer({death.data(), {2, 3}});
  CHECK(scorer.kv_heads() == 2);
  CHECK(std::isinf(scorer.score(0, 0, nullptr, nullptr)));  // 5 lies beyond the three tokens: never within them
  CHECK(std::isinf(scorer.score(0, 1, nullptr, nullptr)));
  CHECK(scorer.score(1, 2, nullptr, nullptr) == 2.0F);
  CHECK(scorer.score(0, 1, nullptr, nullptr) > 0.0F);
  CHECK(std::isinf(scorer.score(1, 3, nullptr, nullptr)));  // not covered
}

TEST_CASE("every death time below 2^24 is its own score") {
  constexpr index_t tokens = index_t{1} << 24;
  std::vector<index_t> death(static_cast<std::size_t>(tokens), INT64_MAX);
  death[0] = tokens - 1;
  death[1] = tokens - 2;
  const kvpop::replay scorer({death.data(), {1, tokens}});
  CHECK(static_cast<index_t>(scorer.score(0, 0, nullptr, nullptr)) == tokens - 1);
  CHECK(static_cast<index_t>(scorer.score(0, 1, nullptr, nullptr)) == tokens - 2);
}

TEST_CASE("what a float cannot tell apart is refused") {
  CHECK_THROWS_WITH_AS(kvpop::replay({nullptr, {1, (index_t{1} << 24) + 1}}),
                       "kvpop: replay: death.extent(token) is 16777217; it must be at most 2^24: scores are floats",
                       kvpop::error);
  const index_t death[6] = {};
  CHECK_THROWS_WITH_AS(kvpop::replay(kvpop::replay::death_view(death, {1, 3}, {6, 2})),
                       "kvpop: replay: death.stride(token) is 2; it must be 1", kvpop::error);
}

TEST_CASE("heads may lie apart") {
  const index_t death[8] = {0, 1, -1, -1, 2, 1, -1, -1};
  const kvpop::replay scorer(kvpop::replay::death_view(death, {2, 3}, {4, 1}));
  CHECK(scorer.score(1, 0, nullptr, nullptr) == 2.0F);
  CHECK(scorer.score(1, 1, nullptr, nullptr) == 1.0F);
}

}  // namespace
