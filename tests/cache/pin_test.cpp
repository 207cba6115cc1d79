#include "kvpop/cache/pin.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kvpop/cache/append.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"

// Random pins are in model_test.cpp; here are the rules one by one, and every message.

using namespace kvpop_test;

namespace {

using block = cache_block<float, 1, 1>;

// Appends tokens with the given scores to both sequences and both heads; head 1 gets the negated scores.
void feed(const block& cache, const std::vector<float>& scores) {
  const auto n = static_cast<index_t>(scores.size());
  std::vector<float> k;
  for (int b = 0; b < 2; ++b) {
    for (const float s : scores) {
      k.push_back(s);
      k.push_back(-s);
    }
  }
  const kvpop::chunk_view<const float> x(k.data(), {2, n, 2, 1});
  kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, x, x);
}

bool holds(const block& cache, index_t sequence, index_t h, index_t position) {
  return kvpop::find_slot(cache.ref().head(sequence, h), position) >= 0;
}

constexpr kvpop::cache_shape shape{.sequences = 2, .kv_heads = 2};
constexpr kvpop::budget limits{.sinks = 1, .window = 2, .topk = 2};

}  // namespace

TEST_CASE("a pinned token stays in every head, and is the weakest again once unpinned") {
  const block cache(shape, limits);
  feed(cache, {0, 1, 2});
  kvpop::pin(cache.ref(), 0, 1);
  feed(cache, {3, 4, 5, 6, 7, 8});
  CHECK(holds(cache, 0, 0, 1));  // score 1, lowest in head 0
  CHECK(holds(cache, 0, 1, 1));
  CHECK_FALSE(holds(cache, 1, 0, 1));  // the other sequence has no pin
  CHECK(kvpop::is_pinned(cache.ref(), 0, 1));
  CHECK(cache.ref().pins(0) == 1);
  CHECK(cache.ref().pins(1) == 0);
  kvpop::unpin(cache.ref(), 0, 1);
  CHECK(cache.ref().pins(0) == 0);
  CHECK_FALSE(kvpop::is_pinned(cache.ref(), 0, 1));
  feed(cache, {9});
  CHECK_FALSE(holds(cache, 0, 0, 1));  // it had kept its priority, 1, the lowest
  CHECK(holds(cache, 0, 1, 1));        // -1, the highest
}

TEST_CASE("with all long-range places pinned the newcomer loses") {
  const block cache(shape, limits);
  feed(cache, {0, 1, 2});
  kvpop::pin(cache.ref(), 0, 1);
  kvpop::pin(cache.ref(), 0, 2);
  feed(cache, {3, 99, 98, 5, 6, 7});
  for (index_t h = 0; h < 2; ++h) {
    CHECK(holds(cache, 0, h, 0));
    CHECK(holds(cache, 0, h, 1));
    CHECK(holds(cache, 0, h, 2));
    CHECK_FALSE(holds(cache, 0, h, 4));  // score 99
    CHECK(holds(cache, 0, h, 7));
    CHECK(holds(cache, 0, h, 8));
    CHECK(cache.ref().held(0, h) == 5);
  }
}

TEST_CASE("a pinned sink takes no long-range place; pinning twice is pinning once") {
  const block cache(shape, limits);
  feed(cache, {0, 1, 2});
  kvpop::pin(cache.ref(), 0, 0);
  CHECK(cache.ref().pins(0) == 0);
  CHECK(kvpop::is_pinned(cache.ref(), 0, 0));
  kvpop::pin(cache.ref(), 0, 1);
  kvpop::pin(cache.ref(), 0, 1);
  kvpop::pin(cache.ref(), 0, 2);
  CHECK(cache.ref().pins(0) == 2);
  kvpop::unpin(cache.ref(), 0, 0);
  kvpop::unpin(cache.ref(), 0, 0);
  kvpop::unpin(cache.ref(), 0, 1);
  kvpop::unpin(cache.ref(), 0, 1);
  CHECK(cache.ref().pins(0) == 1);
}

TEST_CASE("without long-range places only sinks can be pinned") {
  const block cache(shape, {.sinks = 1, .window = 2, .topk = 0});
  feed(cache, {0, 1, 2});
  kvpop::pin(cache.ref(), 1, 0);
  CHECK(message_of([&] { kvpop::pin(cache.ref(), 1, 2); }) ==
        "kvpop: pin: sequence 1 has 0 pinned tokens; budget.topk is 0");
}

TEST_CASE("what cannot be pinned is an error that says why, and changes not one byte") {
  const block cache(shape, limits);
  feed(cache, {0, 1, 2, 3, 4, 5, 6, 7});
  // Head 0 holds 0 4 5 6 7, head 1 (negated scores) 0 1 2 6 7.
  kvpop::pin(cache.ref(), 0, 6);
  kvpop::pin(cache.ref(), 0, 7);
  const std::vector<std::byte> before = cache.snapshot();
  const auto refused = [&](index_t sequence, index_t position) {
    return message_of([&] { kvpop::pin(cache.ref(), sequence, position); });
  };
  const auto refused_unpin = [&](index_t sequence, index_t position) {
    return message_of([&] { kvpop::unpin(cache.ref(), sequence, position); });
  };
  CHECK(refused(-1, 0) == "kvpop: sequence is -1; it must be at least 0");
  CHECK(refused(2, 0) == "kvpop: sequence is 2; the cache has 2");
  CHECK(refused(0, -1) == "kvpop: position is -1; it must be at least 0");
  CHECK(refused(0, 8) == "kvpop: position is 8; sequence 0 has seen only 8 tokens");
  CHECK(refused(0, index_t{1} << 40) == "kvpop: position is 1099511627776; sequence 0 has seen only 8 tokens");
  CHECK(refused(0, 3) == "kvpop: position 3 was evicted from head 0 of sequence 0");
  CHECK(refused(1, 5) == "kvpop: position 5 was evicted from head 1 of sequence 1");
  CHECK(refused_unpin(2, 0) == "kvpop: sequence is 2; the cache has 2");
  CHECK(refused_unpin(0, -4) == "kvpop: position is -4; it must be at least 0");
  CHECK(refused_unpin(0, 8) == "kvpop: position is 8; sequence 0 has seen only 8 tokens");
  CHECK(refused_unpin(0, 3) == "kvpop: position 3 was evicted from head 0 of sequence 0");
  CHECK(message_of([&] { static_cast<void>(kvpop::is_pinned(cache.ref(), 0, 3)); }) ==
        "kvpop: position 3 was evicted from head 0 of sequence 0");
  CHECK(before == cache.snapshot());
}

TEST_CASE("a third pin with two places is refused") {
  const block cache(shape, limits);
  feed(cache, {0, 1, 2, 3});
  kvpop::pin(cache.ref(), 1, 1);
  kvpop::pin(cache.ref(), 1, 3);
  const std::vector<std::byte> before = cache.snapshot();
  CHECK(message_of([&] { kvpop::pin(cache.ref(), 1, 2); }) ==
        "kvpop: pin: sequence 1 has 2 pinned tokens; budget.topk is 2");
  CHECK(before == cache.snapshot());
  kvpop::unpin(cache.ref(), 1, 1);
  kvpop::pin(cache.ref(), 1, 2);
  CHECK(cache.ref().pins(1) == 2);
}

TEST_CASE("the slot of a position, or none") {
  const block cache(shape, limits);
  feed(cache, {0, 1, 2});
  const auto head = cache.ref().head(0, 0);
  CHECK(kvpop::find_slot(head, 0) == 0);
  CHECK(kvpop::find_slot(head, 2) == 2);
  CHECK(kvpop::find_slot(head, 3) == -1);
  CHECK(kvpop::find_slot(head, -1) == -1);  // an empty slot is not a position
}
