#include "kvpop/score/scorer_input.hpp"

#include <doctest/doctest.h>

namespace {

using kvpop::scorer_input;

TEST_CASE("sizes are checked against their limits") {
  CHECK(scorer_input{2, 64, 32}.size() == 96);
  CHECK_NOTHROW(scorer_input{1, 1, 1}.validate());
  CHECK_NOTHROW(scorer_input{65536, 8192, 8192}.validate());
  CHECK_THROWS_WITH_AS(scorer_input({0, 64, 64}).validate(), "kvpop: scorer: kv_heads is 0; it must be in 1 .. 65536",
                       kvpop::error);
  CHECK_THROWS_WITH_AS(scorer_input({65537, 64, 64}).validate(),
                       "kvpop: scorer: kv_heads is 65537; it must be in 1 .. 65536", kvpop::error);
  CHECK_THROWS_WITH_AS(scorer_input({1, -1, 64}).validate(), "kvpop: scorer: key_dim is -1; it must be in 1 .. 8192",
                       kvpop::error);
  CHECK_THROWS_WITH_AS(scorer_input({1, 64, 8193}).validate(),
                       "kvpop: scorer: value_dim is 8193; it must be in 1 .. 8192", kvpop::error);
}

}  // namespace
