#include "kvpop/score/charge.hpp"

#include <doctest/doctest.h>

#include "kvpop/core/dtype.hpp"

namespace {

using kvpop::charged_budget;
using kvpop::entry_bytes;
using kvpop::memory_charge;

TEST_CASE("the charge is the memory's bytes over those of an entry, rounded up") {
  CHECK(entry_bytes<float>(64, 64) == 512);
  CHECK(entry_bytes<kvpop::bfloat16>(128, 128) == 512);
  CHECK(memory_charge(16 * 16 + 16 + 1, entry_bytes<float>(64, 64)) == 3);  // the notebook's mLSTM
  CHECK(memory_charge(0, 512) == 0);
  CHECK(memory_charge(128, 512) == 1);
  CHECK(memory_charge(129, 512) == 2);
  // The paper's 64 entries: a 128 x 128 memory in the cache's 16-bit type, without n and m.
  CHECK(memory_charge(128 * 128 / 2, entry_bytes<kvpop::bfloat16>(128, 128)) == 64);
  CHECK(memory_charge(128 * 128 + 128 + 1, entry_bytes<kvpop::bfloat16>(128, 128)) == 130);
}

TEST_CASE("the charge comes out of the long-range places") {
  CHECK(charged_budget(4096, 4, 256, 64) == kvpop::budget{4, 256, 3772});
  CHECK(charged_budget(128, 4, 32, 3) == kvpop::budget{4, 32, 89});
  CHECK(charged_budget(260, 4, 256, 0) == kvpop::budget{4, 256, 0});
}

TEST_CASE("what does not fit is refused with the arithmetic") {
  CHECK_THROWS_WITH_AS(
      static_cast<void>(charged_budget(38, 4, 32, 3)),
      "kvpop: charged_budget: entries is 38; it must be at least 39: sinks 4 + window 32 + charge 3 of the "
      "scorer's memory",
      kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(charged_budget(38, 4, 0, 0)),
                       "kvpop: budget.window is 0; it must be at least 1: a token always sees itself", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(charged_budget(38, -1, 4, 0)),
                       "kvpop: budget.sinks is -1; it must be at least 0", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(charged_budget(38, 1, 4, -1)),
                       "kvpop: charged_budget: charge is -1; it must be at least 0", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(charged_budget(INT64_MAX, 1, 4, 0)),
                       "kvpop: budget.capacity() is 9223372036854775807; it must be less than 2^31", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(memory_charge(-1, 4)),
                       "kvpop: memory_charge: memory_size is -1; it must be at least 0", kvpop::error);
  CHECK_THROWS_WITH_AS(static_cast<void>(memory_charge(1, 0)),
                       "kvpop: memory_charge: bytes_per_entry is 0; it must be at least 1", kvpop::error);
  CHECK_THROWS_AS(static_cast<void>(memory_charge(INT64_MAX / 2, 4)), kvpop::error);
}

}  // namespace
