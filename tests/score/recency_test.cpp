#include "kvpop/score/recency.hpp"

#include <doctest/doctest.h>

namespace {

using kvpop::streaming_budget;

TEST_CASE("recency scores every token alike") {
  const kvpop::recency scorer;
  const float x[2] = {3.0F, -4.0F};
  for (const kvpop::index_t position : {0, 1, 4095, 1 << 30}) {
    CHECK(scorer.score(5, position, x, nullptr) == 0.0F);
  }
}

TEST_CASE("StreamingLLM spends all but the sinks on the window") {
  CHECK(streaming_budget(128, 4) == kvpop::budget{4, 124, 0});
  CHECK(streaming_budget(1, 0) == kvpop::budget{0, 1, 0});
  CHECK(streaming_budget(128, 4).capacity() == 128);
  CHECK_THROWS_WITH_AS(static_cast<void>(streaming_budget(4, 4)),
                       "kvpop: streaming_budget: entries is 4; it must be more than the sinks", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(streaming_budget(4, -1)),
                       "kvpop: streaming_budget: sinks is -1; it must be at least 0", kvpop::error);
}

}  // namespace
