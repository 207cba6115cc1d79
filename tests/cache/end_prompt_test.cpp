#include "kvpop/cache/end_prompt.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kvpop/attention/prefill.hpp"
#include "kvpop/core/thread_pool.hpp"
#include "kvpop/score/snapkv.hpp"
#include "support/attention_model.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/token_stream.hpp"

// SnapKV from end to end, against the words of docs/method.md section 7 in double.

using namespace kvpop_test;

namespace {

constexpr index_t key_dim = 5;
constexpr index_t value_dim = 3;
using block = cache_block<kvpop::bfloat16, key_dim, value_dim>;

struct prompt {
  index_t rows;
  index_t heads;
  index_t group;
  index_t length;
  index_t later;
  kvpop::budget limits;
};

prompt draw_prompt(generator& random) {
  prompt p;
  p.rows = random.integer(1, 2);
  p.heads = random.integer(1, 2);
  p.group = random.integer(1, 3);
  p.length = random.chance(0.2) ? random.integer(1, 40) : random.integer(33, 90);
  p.later = random.integer(0, 12);
  const index_t sinks = random.integer(0, 4);
  p.limits = kvpop::snapkv_budget(32 + sinks + random.integer(0, 20), sinks);
  return p;
}

// A prompt by chunks, and what comes after it, through prefill.
void run(const kvpop::host_context& ctx, const block& cache, const kvpop::snapkv& scorer, const prompt& p,
         const token_stream<float>& kv, const token_stream<float>& q, index_t begin, index_t count) {
  std::vector<float> out(static_cast<std::size_t>(p.rows * count * p.heads * p.group * value_dim));
  std::vector<std::byte> memory(kvpop::prefill_workspace<kvpop::snapkv>(ctx, cache.ref(), count, p.heads * p.group));
  kvpop::prefill(ctx, cache.ref(), scorer, q.keys(begin, count), kv.keys(begin, count), kv.values(begin, count),
                 kvpop::chunk_view<float>(out.data(), {p.rows, count, p.heads * p.group, value_dim}), {},
                 {memory.data(), memory.size()});
}

// Pooled weights of one head's prompt: of the newest 32 queries, mean over queries and group, average of 7 neighbours.
numbers pooled_weights(const prompt& p, const token_stream<float>& kv, const token_stream<float>& q, index_t b,
                       index_t h, double scale) {
  std::vector<numbers> keys;
  for (index_t t = 0; t < p.length; ++t) {
    std::vector<kvpop::bfloat16> row(key_dim);
    kvpop::round_to(kv.keys(0, p.length).row(b, t, h), row.data(), key_dim);
    keys.push_back(as_numbers(row.data(), key_dim));
  }
  const numbers no_value(1, 0.0);
  numbers mass(static_cast<std::size_t>(p.length), 0.0);
  double queries = 0;
  for (index_t t = std::max<index_t>(0, p.length - 32); t < p.length; ++t) {
    std::vector<const numbers*> seen;
    for (index_t i = 0; i <= t; ++i) {
      seen.push_back(&keys[static_cast<std::size_t>(i)]);
    }
    const std::vector<const numbers*> values(seen.size(), &no_value);
    for (index_t g = h * p.group; g < (h + 1) * p.group; ++g) {
      const attended_row row =
          attend(as_numbers(q.keys(0, p.length).row(b, t, g), key_dim), seen, values, 1, {scale, 0.0});
      for (std::size_t i = 0; i < seen.size(); ++i) {
        mass[i] += row.weights[i];
      }
      queries += 1;
    }
  }
  numbers pooled(mass.size(), 0.0);
  const index_t before = p.length - 32;
  for (index_t t = 0; t < before; ++t) {
    for (index_t i = std::max<index_t>(0, t - 3); i <= std::min(before - 1, t + 3); ++i) {
      pooled[static_cast<std::size_t>(t)] += mass[static_cast<std::size_t>(i)] / (7 * queries);
    }
  }
  return pooled;
}

std::vector<index_t> held_positions(const block& cache, index_t b, index_t h) {
  const auto head = cache.ref().head(b, h);
  std::vector<index_t> held(head.positions, head.positions + *head.held);
  std::sort(held.begin(), held.end());
  return held;
}

}  // namespace

TEST_CASE("SnapKV keeps sinks, the newest 32 and what its last queries look at; afterwards the oldest goes") {
  kvpop::thread_pool pool(2);
  index_t compacted = 0;
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(95'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const prompt p = draw_prompt(random);
    const kvpop::snapkv scorer(p.group, key_dim);
    const block cache({.sequences = p.rows, .kv_heads = p.heads, .memory = scorer.memory_size(), .prompt = 90},
                      p.limits);
    const index_t all = p.length + p.later;
    const token_stream<float> kv(random, p.rows, all, p.heads, key_dim, value_dim);
    const token_stream<float> q(random, p.rows, all, p.heads * p.group, key_dim, 1);
    const kvpop::host_context ctx = random.chance(0.5) ? kvpop::host_context() : pool.context();
    for (index_t begin = 0; begin < p.length;) {
      const index_t n = random.integer(1, p.length - begin);
      run(ctx, cache, scorer, p, kv, q, begin, n);
      begin += n;
    }
    REQUIRE(cache.ref().held(0, 0) == p.length);
    const float scale = random.chance(0.5) ? 0.0F : 1.5F;
    std::vector<std::byte> memory(kvpop::end_prompt_workspace(cache.ref()));
    for (index_t b = 0; b < p.rows; ++b) {
      kvpop::end_prompt(ctx, cache.ref(), scorer, b, {.scale = scale}, {memory.data(), memory.size()});
    }
    const index_t capacity = p.limits.capacity();
    std::vector<std::vector<index_t>> held;
    for (index_t b = 0; b < p.rows; ++b) {
      REQUIRE(cache.ref().limit(b) == capacity);
      for (index_t h = 0; h < p.heads; ++h) {
        held.push_back(held_positions(cache, b, h));
        REQUIRE(static_cast<index_t>(held.back().size()) == std::min(p.length, capacity));
        const double used = scale != 0 ? static_cast<double>(scale) : 1 / std::sqrt(static_cast<double>(key_dim));
        const numbers pooled = pooled_weights(p, kv, q, b, h, used);
        double weakest = 1e9;   // of those that were chosen
        double strongest = -1;  // of those that were not
        for (index_t t = 0; t < p.length; ++t) {
          const bool stays = std::binary_search(held.back().begin(), held.back().end(), t);
          const double w = pooled[static_cast<std::size_t>(t)];
          if (t < p.limits.sinks || t >= p.length - 32) {
            REQUIRE(stays);
          } else if (stays) {
            weakest = std::min(weakest, w);
          } else {
            strongest = std::max(strongest, w);
          }
        }
        REQUIRE(weakest >= strongest - 1e-6);
        compacted += strongest >= 0 ? 1 : 0;
      }
    }
    for (index_t begin = p.length; begin < all;) {
      const index_t n = random.integer(1, all - begin);
      run(ctx, cache, scorer, p, kv, q, begin, n);
      begin += n;
    }
    for (index_t r = 0; r < p.rows * p.heads; ++r) {
      std::vector<index_t>& wanted = held[static_cast<std::size_t>(r)];
      for (index_t t = p.length; t < all; ++t) {
        if (static_cast<index_t>(wanted.size()) == capacity) {
          wanted.erase(std::find_if(wanted.begin(), wanted.end(), [&](index_t x) { return x >= p.limits.sinks; }));
        }
        wanted.push_back(t);
      }
      REQUIRE(held_positions(cache, r / p.heads, r % p.heads) == wanted);
    }
  }
  CHECK(compacted > draws(1'000) / 2);
}

TEST_CASE("chunks and threads change no byte of the prompt's state, nor of what is chosen") {
  kvpop::thread_pool pool(3);
  for (int i = 0; i < draws(300); ++i) {
    generator random(96'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const prompt p = draw_prompt(random);
    const kvpop::snapkv scorer(p.group, key_dim);
    const kvpop::cache_shape shape{
        .sequences = p.rows, .kv_heads = p.heads, .memory = scorer.memory_size(), .prompt = 90};
    const token_stream<float> kv(random, p.rows, p.length, p.heads, key_dim, value_dim);
    const token_stream<float> q(random, p.rows, p.length, p.heads * p.group, key_dim, 1);
    const block singly(shape, p.limits);
    const block chunked(shape, p.limits);
    for (index_t t = 0; t < p.length; ++t) {
      run(kvpop::host_context(), singly, scorer, p, kv, q, t, 1);
    }
    run(pool.context(), chunked, scorer, p, kv, q, 0, p.length);
    REQUIRE(state_of(singly.ref()) == state_of(chunked.ref()));
    std::vector<std::byte> memory(kvpop::end_prompt_workspace(singly.ref()));
    kvpop::end_prompt(kvpop::host_context(), singly.ref(), scorer, 0, {}, {memory.data(), memory.size()});
    kvpop::end_prompt(pool.context(), chunked.ref(), scorer, 0, {}, {memory.data(), memory.size()});
    REQUIRE(state_of(singly.ref()) == state_of(chunked.ref()));
  }
}

TEST_CASE("what cannot be ended is refused, and nothing changes") {
  generator random(97);
  const prompt p{2, 2, 2, 40, 0, kvpop::snapkv_budget(36, 2)};
  const kvpop::snapkv scorer(2, key_dim);
  const block cache({.sequences = 2, .kv_heads = 2, .memory = scorer.memory_size(), .prompt = 60}, p.limits);
  const token_stream<float> kv(random, 2, 45, 2, key_dim, value_dim);
  const token_stream<float> q(random, 2, 45, 4, key_dim, 1);
  run(kvpop::host_context(), cache, scorer, p, kv, q, 0, 40);
  std::vector<std::byte> memory(kvpop::end_prompt_workspace(cache.ref()));
  const auto refused = [&](const kvpop::snapkv& s, index_t sequence, std::size_t bytes,
                           const kvpop::attention_params& attention = {}) {
    const std::vector<std::byte> before = cache.snapshot();
    const std::string message = message_of([&] {
      kvpop::end_prompt(kvpop::host_context(), cache.ref(), s, sequence, attention, {memory.data(), bytes});
    });
    CHECK(before == cache.snapshot());
    return message;
  };
  CHECK(refused(scorer, 2, memory.size()) == "kvpop: sequence is 2; the cache has 2");
  CHECK(refused(scorer, -1, memory.size()) == "kvpop: sequence is -1; it must be at least 0");
  CHECK(refused(kvpop::snapkv(2, 3), 0, memory.size()) == "kvpop: end_prompt: scorer.key_dim is 3; the cache has 5");
  CHECK(refused(kvpop::snapkv(3, key_dim), 0, memory.size()).find("kvpop: end_prompt: scorer.memory_size is ") == 0);
  CHECK(refused(scorer, 0, memory.size(), {.sliding_window = 7}) ==
        "kvpop: end_prompt: attention_params.sliding_window is 7; it must be 0: SnapKV scores a prompt without one");
  CHECK(refused(scorer, 0, memory.size(), {.soft_cap = 50.0F}) ==
        "kvpop: end_prompt: attention_params.soft_cap is 50.000000; it must be 0: SnapKV scores a prompt without one");
  CHECK(refused(scorer, 0, memory.size(), {.scale = -1.0F}).find("attention_params.scale is -1") != std::string::npos);
  CHECK(refused(scorer, 0, memory.size() - 1) == "kvpop: end_prompt: workspace.bytes is " +
                                                     std::to_string(memory.size() - 1) + "; at least " +
                                                     std::to_string(memory.size()) + " are needed");
  kvpop::end_prompt(kvpop::host_context(), cache.ref(), scorer, 0, {}, {memory.data(), memory.size()});
  CHECK(refused(scorer, 0, memory.size()) == "kvpop: end_prompt: the prompt of sequence 0 has ended already");
  kvpop::end_prompt(kvpop::host_context(), cache.ref(), scorer, 1, {}, {memory.data(), memory.size()});
  run(kvpop::host_context(), cache, scorer, p, kv, q, 40, 5);
  CHECK(refused(scorer, 1, memory.size()) == "kvpop: end_prompt: the prompt of sequence 1 has ended already");
}

TEST_CASE("a prompt that fits the budget loses nothing") {
  generator random(98);
  const prompt p{1, 1, 1, 20, 0, kvpop::snapkv_budget(40, 2)};
  const kvpop::snapkv scorer(1, key_dim);
  const block cache({.sequences = 1, .kv_heads = 1, .memory = scorer.memory_size(), .prompt = 60}, p.limits);
  const token_stream<float> kv(random, 1, 20, 1, key_dim, value_dim);
  const token_stream<float> q(random, 1, 20, 1, key_dim, 1);
  run(kvpop::host_context(), cache, scorer, p, kv, q, 0, 20);
  std::vector<std::byte> memory(kvpop::end_prompt_workspace(cache.ref()));
  kvpop::end_prompt(kvpop::host_context(), cache.ref(), scorer, 0, {}, {memory.data(), memory.size()});
  CHECK(cache.ref().held(0, 0) == 20);
  CHECK(cache.ref().limit(0) == 40);
}
