#include "kvpop/cache/chunk.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "kvpop/cache/append.hpp"
#include "support/any_scorer.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/token_stream.hpp"

using namespace kvpop_test;

namespace {

constexpr index_t key_dim = 3;
constexpr index_t value_dim = 2;
using block = cache_block<kvpop::float16, key_dim, value_dim>;

}  // namespace

TEST_CASE(
    "staging moves no key and no value; committing makes it the state of append; deaths are what append evicted") {
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(110'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const kvpop::budget limits{
        .sinks = random.integer(0, 4), .window = random.integer(1, 6), .topk = random.pick<index_t>({0, 1, 5, 17})};
    const index_t rows = random.integer(1, 2);
    const index_t heads = random.integer(1, 2);
    const any_scorer any(random, limits, heads, key_dim, value_dim);
    const erased_scorer scorer = any.erased();
    const kvpop::cache_shape shape{.sequences = rows, .kv_heads = heads, .memory = scorer.memory_size()};
    const index_t earlier = random.integer(0, 40);
    const index_t tokens = random.integer(1, 40);
    const token_stream<float> kv(random, rows, earlier + tokens, heads, key_dim, value_dim);
    std::vector<index_t> counts;
    for (index_t b = 0; b < rows; ++b) {
      counts.push_back(random.integer(0, tokens));
    }
    const block whole(shape, limits);
    const block staged_cache(shape, limits);
    const kvpop::host_context here;
    for (const block* cache : {&whole, &staged_cache}) {
      kvpop::append(here, cache->ref(), scorer, kv.keys(0, earlier), kv.values(0, earlier));
    }
    std::vector<kvpop::eviction> evicted(static_cast<std::size_t>(rows * tokens * heads));
    kvpop::append_params params{.counts = counts, .evicted = {}};
    params.evicted = {evicted.data(), {rows, tokens, heads}};
    kvpop::append(here, whole.ref(), scorer, kv.keys(earlier, tokens), kv.values(earlier, tokens), params);

    const auto cache = staged_cache.ref();
    kvpop::carver count;
    static_cast<void>(kvpop::staged_chunk<kvpop::float16>::carve(count, cache, tokens));
    std::vector<std::byte> memory(count.bytes());
    kvpop::carver carve({memory.data(), memory.size()}, "test");
    const auto chunk = kvpop::staged_chunk<kvpop::float16>::carve(carve, cache, tokens);
    const auto first = reinterpret_cast<const std::byte*>(cache.arrays().keys);
    const auto last = reinterpret_cast<const std::byte*>(cache.arrays().positions);
    const std::vector<std::byte> keys_and_values(first, last);
    for (index_t b = 0; b < rows; ++b) {
      for (index_t h = 0; h < heads; ++h) {
        const std::vector<index_t> held(cache.head(b, h).positions, cache.head(b, h).positions + cache.held(b, h));
        kvpop::stage_head(cache, scorer, kvpop::staged(chunk, cache, b, h), b, h, kv.keys(earlier, tokens),
                          kv.values(earlier, tokens), counts[static_cast<std::size_t>(b)], {});
        const auto part = kvpop::staged(chunk, cache, b, h);
        REQUIRE(std::vector<index_t>(part.held_positions, part.held_positions + *part.held) == held);
        const auto death_of = [&](index_t position) {
          for (index_t t = 0; t < counts[static_cast<std::size_t>(b)]; ++t) {
            if (params.evicted(b, t, h).position == position) {
              return earlier + t;
            }
          }
          return kvpop::never;
        };
        for (index_t slot = 0; slot < *part.held; ++slot) {
          REQUIRE(part.held_deaths[slot] == death_of(held[static_cast<std::size_t>(slot)]));
        }
        for (index_t t = 0; t < counts[static_cast<std::size_t>(b)]; ++t) {
          REQUIRE(part.deaths[t] == death_of(earlier + t));
        }
      }
    }
    REQUIRE(std::equal(first, last, keys_and_values.begin()));
    for (index_t b = 0; b < rows; ++b) {
      for (index_t h = 0; h < heads; ++h) {
        kvpop::commit_head(cache, kvpop::staged(chunk, cache, b, h), b, h, counts[static_cast<std::size_t>(b)]);
      }
    }
    kvpop::advance(cache, counts, tokens);
    REQUIRE(state_of(whole.ref()) == state_of(cache));
  }
}
