#include "kvpop/score/tova.hpp"

#include <doctest/doctest.h>

namespace {

using kvpop::tova_budget;

TEST_CASE("TOVA forgets all weights but the last") {
  const kvpop::tova scorer;
  CHECK(scorer.attended(123.0, 0.25F) == 0.25);
  CHECK(scorer.attended(-1.0, 0.0F) == 0.0);
  CHECK(kvpop::tova::needs_weights);
  CHECK_FALSE(kvpop::tova::needs_queries);
}

TEST_CASE("TOVA protects the new token and the newest of the last attention") {
  CHECK(tova_budget(2) == kvpop::budget{0, 2, 0});
  CHECK(tova_budget(128) == kvpop::budget{0, 2, 126});
  CHECK_THROWS_WITH_AS(static_cast<void>(tova_budget(1)), "kvpop: tova_budget: entries is 1; it must be at least 2",
                       kvpop::error);
}

}  // namespace
