#include "kvpop/cache/reset.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kvpop/cache/append.hpp"
#include "kvpop/cache/pin.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"
#include "support/token_stream.hpp"

using namespace kvpop_test;

namespace {

constexpr kvpop::cache_shape shape{.sequences = 3, .kv_heads = 2, .memory = 3};
constexpr kvpop::budget limits{.sinks = 2, .window = 3, .topk = 5};
constexpr memory_scorer scorer{.lag = 3, .decay = nullptr, .width = 5};
using block = cache_block<kvpop::bfloat16, 3, 2>;

void feed(const block::ref_type& cache, const token_stream<float>& stream, index_t begin, index_t count,
          const std::vector<index_t>& counts = {}) {
  kvpop::append(kvpop::host_context(), cache, scorer, stream.keys(begin, count), stream.values(begin, count),
                {.counts = counts, .evicted = {}});
}

}  // namespace

TEST_CASE("a reset sequence is a new one, and its neighbours keep every byte") {
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(40'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const token_stream<float> stream(random, 3, 40, 2, 3, 2);
    const block cache(shape, limits);
    feed(cache.ref(), stream, 0, random.integer(0, 40));
    const index_t b = random.integer(0, 2);
    if (cache.ref().seen(b) > 0) {
      kvpop::pin(cache.ref(), b, cache.ref().seen(b) - 1);
    }
    const std::vector<std::byte> others[] = {state_of(cache.ref(), (b + 1) % 3), state_of(cache.ref(), (b + 2) % 3)};
    const std::vector<kvpop::bfloat16> keys(cache.ref().arrays().keys, cache.ref().arrays().keys + 3 * 2 * 10 * 3);
    kvpop::reset(cache.ref(), b);
    const block fresh(shape, limits);
    REQUIRE(state_of(cache.ref(), b) == state_of(fresh.ref(), b));
    REQUIRE(others[0] == state_of(cache.ref(), (b + 1) % 3));
    REQUIRE(others[1] == state_of(cache.ref(), (b + 2) % 3));
    REQUIRE(std::memcmp(keys.data(), cache.ref().arrays().keys, keys.size() * sizeof(keys[0])) == 0);

    std::vector<index_t> counts(3, 0);
    counts[static_cast<std::size_t>(b)] = 40;
    feed(cache.ref(), stream, 0, 40, counts);
    feed(fresh.ref(), stream, 0, 40, counts);
    REQUIRE(state_of(cache.ref(), b) == state_of(fresh.ref(), b));
  }
}

TEST_CASE("clear makes every sequence new, whatever the bytes were") {
  generator random(41);
  const token_stream<float> stream(random, 3, 40, 2, 3, 2);
  const block cache(shape, limits, 0x00);
  const block other(shape, limits, 0xff);
  feed(cache.ref(), stream, 0, 40);
  CHECK(state_of(cache.ref()) != state_of(other.ref()));
  kvpop::clear(cache.ref());
  CHECK(state_of(cache.ref()) == state_of(other.ref()));
}

TEST_CASE("assign copies what a sequence is, within a cache and across caches, and nothing else") {
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(42'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const token_stream<float> stream(random, 3, 60, 2, 3, 2);
    const block a(shape, limits);
    kvpop::cache_shape wide = shape;
    wide.sequences = 5;
    const block b(wide, limits, 0x3c);
    std::vector<index_t> counts = {random.integer(0, 30), random.integer(0, 30), random.integer(0, 30)};
    feed(a.ref(), stream, 0, 30, counts);
    const index_t from = random.integer(0, 2);
    if (a.ref().seen(from) > 0) {
      kvpop::pin(a.ref(), from, a.ref().seen(from) - 1);
    }
    // Across: the bytes of all other sequences of the target are as before.
    const index_t to = random.integer(0, 4);
    std::vector<std::vector<std::byte>> before;
    for (index_t s = 0; s < 5; ++s) {
      before.push_back(state_of(b.ref(), s));
    }
    kvpop::assign(b.ref(), to, a.ref(), from);
    for (index_t s = 0; s < 5; ++s) {
      REQUIRE(state_of(b.ref(), s) == (s == to ? state_of(a.ref(), from) : before[static_cast<std::size_t>(s)]));
    }
    // Within, and from then on both go their own ways.
    const index_t twin = (from + 1) % 3;
    kvpop::assign(a.ref(), twin, a.ref(), from);
    REQUIRE(state_of(a.ref(), twin) == state_of(a.ref(), from));
    const std::vector<std::byte> kept = state_of(a.ref(), from);
    std::vector<index_t> only(3, 0);
    only[static_cast<std::size_t>(twin)] = 7;
    feed(a.ref(), stream, 40, 7, only);
    REQUIRE(state_of(a.ref(), from) == kept);
    REQUIRE(a.ref().seen(twin) == a.ref().seen(from) + 7);
  }
}

TEST_CASE("a sequence assigned to itself stays as it is") {
  generator random(43);
  const token_stream<float> stream(random, 3, 30, 2, 3, 2);
  const block cache(shape, limits);
  feed(cache.ref(), stream, 0, 30);
  const std::vector<std::byte> before = cache.snapshot();
  kvpop::assign(cache.ref(), 1, cache.ref(), 1);
  CHECK(before == cache.snapshot());
}

TEST_CASE("a longer sequence replaced by a shorter one leaves nothing behind") {
  generator random(44);
  const token_stream<float> stream(random, 3, 30, 2, 3, 2);
  const block cache(shape, limits);
  feed(cache.ref(), stream, 0, 30, {30, 2, 0});
  kvpop::assign(cache.ref(), 0, cache.ref(), 1);
  CHECK(cache.ref().seen(0) == 2);
  CHECK(cache.ref().held(0, 1) == 2);
  CHECK(state_of(cache.ref(), 0) == state_of(cache.ref(), 1));
  kvpop::assign(cache.ref(), 0, cache.ref(), 2);
  CHECK(state_of(cache.ref(), 0) == state_of(cache.ref(), 2));
}

TEST_CASE("bad sequences and caches that differ are refused, and nothing changes") {
  generator random(45);
  const token_stream<float> stream(random, 3, 30, 2, 3, 2);
  const block cache(shape, limits);
  feed(cache.ref(), stream, 0, 30);
  const std::vector<std::byte> before = cache.snapshot();
  const auto message = [](auto&& act) { return message_of(act); };
  CHECK(message([&] { kvpop::reset(cache.ref(), -1); }) == "kvpop: sequence is -1; it must be at least 0");
  CHECK(message([&] { kvpop::reset(cache.ref(), 3); }) == "kvpop: sequence is 3; the cache has 3");
  CHECK(message([&] { kvpop::assign(cache.ref(), 3, cache.ref(), 0); }) == "kvpop: sequence is 3; the cache has 3");
  CHECK(message([&] { kvpop::assign(cache.ref(), 0, cache.ref(), -2); }) ==
        "kvpop: sequence is -2; it must be at least 0");
  const auto refuses = [&](const kvpop::cache_shape& other_shape, const kvpop::budget& other_limits) {
    const block other(other_shape, other_limits);
    const std::vector<std::byte> other_before = other.snapshot();
    const std::string wanted = "kvpop: assign: the caches differ in heads, memory, prompt or budget";
    CHECK(message([&] { kvpop::assign(cache.ref(), 0, other.ref(), 0); }) == wanted);
    CHECK(message([&] { kvpop::assign(other.ref(), 0, cache.ref(), 0); }) == wanted);
    CHECK(other_before == other.snapshot());
  };
  refuses({.sequences = 3, .kv_heads = 1, .memory = 3}, limits);
  refuses({.sequences = 3, .kv_heads = 2, .memory = 4}, limits);
  refuses({.sequences = 3, .kv_heads = 2, .memory = 3, .prompt = 12}, limits);
  refuses(shape, {.sinks = 1, .window = 3, .topk = 6});  // of the same capacity
  refuses(shape, {.sinks = 2, .window = 4, .topk = 4});
  CHECK(before == cache.snapshot());
}
