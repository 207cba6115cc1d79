#include "kvpop/cache/place.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"

using namespace kvpop_test;

namespace {

// One call of a scorer: what the placer asked for.
struct call {
  char what;  // 'r'eset, 'o'bserve, 's'core
  index_t head;
  index_t position;
  float first;  // x[0]

  friend bool operator==(const call&, const call&) = default;
};

// Writes down every call.
struct diary_scorer {
  std::vector<call>* calls;
  index_t lag;

  [[nodiscard]] index_t delay() const noexcept { return lag; }
  [[nodiscard]] index_t memory_size() const noexcept { return 1; }
  void reset(float*) const noexcept { calls->push_back({'r', -1, -1, 0}); }
  void observe(index_t head, index_t position, const float* x, float*) const noexcept {
    calls->push_back({'o', head, position, x[0]});
  }
  [[nodiscard]] float score(index_t head, index_t position, const float* x, const float*) const noexcept {
    calls->push_back({'s', head, position, x[0]});
    return x[0];
  }
};

}  // namespace

TEST_CASE("rounding: the identity for equal types, else through float") {
  const std::vector<float> x = {1.0F, -0.0F, 1.00390625F, 3.0e38F, std::bit_cast<float>(0x7f800001U)};
  std::vector<kvpop::bfloat16> b(5);
  kvpop::round_to(x.data(), b.data(), 5);
  CHECK(b[0].bits == 0x3f80);
  CHECK(b[1].bits == 0x8000);
  CHECK(b[2].bits == 0x3f80);  // a tie, to even
  CHECK(b[3].bits == 0x7f62);
  CHECK((b[4].bits & 0x7fff) > 0x7f80);
  std::vector<float> same(5);
  kvpop::round_to(x.data(), same.data(), 5);
  CHECK(std::memcmp(x.data(), same.data(), 5 * sizeof(float)) == 0);  // a signalling NaN stays one
}

TEST_CASE("a scorer's input is the key, then the value") {
  const float key[2] = {1, 2};
  const float value[3] = {3, 4, 5};
  float x[5] = {};
  kvpop::widen_token<2, 3>(kvpop::stored_token<float>{key, value}, x);
  for (int i = 0; i < 5; ++i) {
    CHECK(x[i] == static_cast<float>(i + 1));
  }
}

TEST_CASE("a placer resets once, observes every token, then scores the one that is `delay` behind") {
  for (const index_t lag : {index_t{0}, index_t{1}, index_t{3}}) {
    CAPTURE(lag);
    const cache_block<float, 1, 1> cache({.memory = 1}, {.sinks = 1, .window = 3, .topk = 1});
    std::vector<call> calls;
    const auto head = cache.ref().head(0, 0);
    kvpop::token_placer<float, 1, 1, diary_scorer> placer(head, cache.ref().budget(), {&calls, lag}, 6);
    std::vector<call> wanted = {{'r', -1, -1, 0}};
    for (index_t q = 0; q < 12; ++q) {
      const float own = static_cast<float>(q) + 0.5F;
      kvpop::eviction gone;
      const auto stored = [&](index_t t, index_t slot) noexcept {
        CHECK((t == q) == (slot == -1));
        return slot < 0 ? kvpop::stored_token<float>{&own, &own}
                        : kvpop::stored_token<float>{head.keys + slot, head.values + slot};
      };
      const index_t slot = placer.place(q, stored, gone);
      head.keys[slot] = own;
      wanted.push_back({'o', 6, q, own});
      if (q >= lag) {
        wanted.push_back({'s', 6, q - lag, static_cast<float>(q - lag) + 0.5F});
      }
      REQUIRE(calls == wanted);
      CHECK(head.positions[slot] == q);
      CHECK(std::isnan(head.priorities[slot]) == (lag > 0));
      CHECK(gone.slot == (q < 5 ? -1 : slot));
    }
  }
}

TEST_CASE("a token that follows attention starts with priority 0, scored or not") {
  const cache_block<float, 1, 1> cache({}, {.sinks = 0, .window = 2, .topk = 1});
  const auto head = cache.ref().head(0, 0);
  kvpop::token_placer<float, 1, 1, attending_probe> placer(head, cache.ref().budget(), {}, 0);
  const float x = 1;
  for (index_t q = 0; q < 5; ++q) {
    kvpop::eviction gone;
    const index_t slot = placer.place(
        q,
        [&](index_t, index_t) noexcept {
          return kvpop::stored_token<float>{&x, &x};
        },
        gone);
    CHECK(head.priorities[slot] == 0.0);
    CHECK(gone.position == (q < 3 ? -1 : q - 3));  // all priorities equal: the earliest goes
  }
}
