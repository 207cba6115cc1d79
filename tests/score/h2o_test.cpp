#include "kvpop/score/h2o.hpp"

#include <doctest/doctest.h>

namespace {

using kvpop::h2o_budget;

TEST_CASE("H2O adds up weights in double") {
  const kvpop::h2o scorer;
  CHECK(scorer.attended(0.5, 0.25F) == 0.75);
  CHECK(scorer.attended(16777216.0, 0.0625F) == 16777216.0625);  // a float sum would stand still here
  CHECK(kvpop::h2o::needs_weights);
  CHECK_FALSE(kvpop::h2o::needs_queries);
}

TEST_CASE("H2O protects sinks and the newest half") {
  CHECK(h2o_budget(128, 4) == kvpop::budget{4, 64, 60});
  CHECK(h2o_budget(7, 4) == kvpop::budget{4, 3, 0});
  CHECK(h2o_budget(1, 0) == kvpop::budget{0, 1, 0});
  CHECK(h2o_budget(127, 0).capacity() == 127);
  CHECK_THROWS_WITH_AS(static_cast<void>(h2o_budget(0, 0)), "kvpop: h2o_budget: entries is 0; it must be at least 1",
                       kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(h2o_budget(8, -1)), "kvpop: h2o_budget: sinks is -1; it must be at least 0",
                       kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(h2o_budget(8, 5)),
                       "kvpop: h2o_budget: sinks is 5; it must be at most half of the entries: the rest is the window",
                       kvpop::error);
}

}  // namespace
