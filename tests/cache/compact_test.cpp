#include "kvpop/cache/compact.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kvpop/cache/append.hpp"
#include "kvpop/cache/pin.hpp"
#include "kvpop/core/thread_pool.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"
#include "support/token_stream.hpp"

using namespace kvpop_test;

namespace {

constexpr index_t key_dim = 3;
constexpr index_t value_dim = 2;
using block = cache_block<float, key_dim, value_dim>;

// What a head holds, by position.
struct entry {
  index_t slot;
  double priority;
  bool pinned;
  float key[key_dim];
  float value[value_dim];
};

std::map<index_t, entry> entries_of(const block& cache, index_t sequence, index_t h) {
  std::map<index_t, entry> all;
  const auto head = cache.ref().head(sequence, h);
  for (index_t slot = 0; slot < *head.held; ++slot) {
    entry e{slot, head.priorities[slot], head.pinned[slot] != 0, {}, {}};
    std::copy_n(head.keys + slot * key_dim, key_dim, e.key);
    std::copy_n(head.values + slot * value_dim, value_dim, e.value);
    all[head.positions[slot]] = e;
  }
  return all;
}

bool same_token(const entry& a, const entry& b) {
  return (a.priority == b.priority || (std::isnan(a.priority) && std::isnan(b.priority))) && a.pinned == b.pinned &&
         std::memcmp(a.key, b.key, sizeof(a.key)) == 0 && std::memcmp(a.value, b.value, sizeof(a.value)) == 0;
}

// Of what was held: sinks, window, pinned tokens, and the best of the others while there is room.
std::vector<index_t> survivors(const std::map<index_t, entry>& held, const kvpop::budget& limits, index_t seen) {
  std::vector<index_t> stay;
  std::vector<index_t> others;
  index_t places = limits.topk;
  for (const auto& [position, e] : held) {
    const bool structural = position < limits.sinks || position >= seen - limits.window;
    if (structural || e.pinned) {
      stay.push_back(position);
      places -= structural ? 0 : 1;
    } else {
      others.push_back(position);
    }
  }
  std::sort(others.begin(), others.end(), [&](index_t a, index_t b) {  // best first
    const double x = held.at(a).priority;
    const double y = held.at(b).priority;
    if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
    if (!std::isnan(x) && x != y) return x > y;
    return a > b;
  });
  others.resize(std::min(others.size(), static_cast<std::size_t>(places)));
  stay.insert(stay.end(), others.begin(), others.end());
  std::sort(stay.begin(), stay.end());
  return stay;
}

struct guarded_bytes {
  std::vector<std::byte> memory;
  std::size_t bytes;
  std::size_t shift;

  guarded_bytes(std::size_t n, std::size_t offset) : memory(n + 128, std::byte{0x5a}), bytes(n), shift(offset) {}
  [[nodiscard]] kvpop::workspace get() { return {memory.data() + shift, bytes}; }
  [[nodiscard]] bool intact() const {
    bool same = true;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      same = same && ((i >= shift && i < shift + bytes) || memory[i] == std::byte{0x5a});
    }
    return same;
  }
};

struct drawn {
  kvpop::cache_shape shape;
  kvpop::budget limits;
  index_t lag;
  index_t tokens;
};

drawn draw(generator& random) {
  drawn d;
  d.limits = {
      .sinks = random.integer(0, 4), .window = random.integer(1, 6), .topk = random.pick<index_t>({0, 1, 3, 9, 70})};
  d.shape = {.sequences = random.integer(1, 3),
             .kv_heads = random.integer(1, 3),
             .memory = 0,
             .prompt = random.integer(1, 120)};
  d.lag = random.pick<index_t>({0, d.limits.window});
  d.tokens = random.integer(0, std::max(d.shape.prompt, d.limits.capacity()));
  return d;
}

token_stream<float> draw_tokens(generator& random, const drawn& d, index_t tokens) {
  token_stream<float> stream(random, d.shape.sequences, tokens, d.shape.kv_heads, key_dim, value_dim);
  for (index_t b = 0; b < d.shape.sequences; ++b) {
    for (index_t t = 0; t < tokens; ++t) {
      for (index_t h = 0; h < d.shape.kv_heads; ++h) {
        stream.key(b, t, h, 0) = random.score();
      }
    }
  }
  return stream;
}

}  // namespace

TEST_CASE(
    "what stays is sinks, window, pins and the best; survivors below the line do not move; nothing else changes") {
  kvpop::thread_pool pool(3);
  for (int i = 0; i < draws(2'000); ++i) {
    generator random(90'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const drawn d = draw(random);
    const block cache(d.shape, d.limits);
    const token_stream<float> stream = draw_tokens(random, d, d.tokens);
    kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{.lag = d.lag}, stream.keys(0, d.tokens),
                  stream.values(0, d.tokens));
    const index_t b = random.integer(0, d.shape.sequences - 1);
    for (index_t p = 0; p < d.limits.topk && d.tokens > 0 && random.chance(0.6); ++p) {
      const index_t position = random.integer(0, d.tokens - 1);
      if (kvpop::find_slot(cache.ref().head(b, 0), position) >= 0) {
        static_cast<void>(message_of([&] { kvpop::pin(cache.ref(), b, position); }));
      }
    }
    std::vector<std::map<index_t, entry>> before;
    std::vector<std::vector<std::byte>> others;
    for (index_t s = 0; s < d.shape.sequences; ++s) {
      others.push_back(state_of(cache.ref(), s));
    }
    for (index_t h = 0; h < d.shape.kv_heads; ++h) {
      before.push_back(entries_of(cache, b, h));
    }
    const index_t pins = cache.ref().pins(b);
    guarded_bytes memory(kvpop::compact_workspace(cache.ref()), static_cast<std::size_t>(random.integer(0, 63)));
    const kvpop::host_context ctx = random.chance(0.5) ? pool.context() : kvpop::host_context();
    kvpop::compact(ctx, cache.ref(), b, memory.get());
    REQUIRE(memory.intact());
    for (index_t s = 0; s < d.shape.sequences; ++s) {
      REQUIRE((s == b || state_of(cache.ref(), s) == others[static_cast<std::size_t>(s)]));
    }
    REQUIRE(cache.ref().limit(b) == d.limits.capacity());
    REQUIRE(cache.ref().seen(b) == d.tokens);
    REQUIRE(cache.ref().pins(b) == pins);
    for (index_t h = 0; h < d.shape.kv_heads; ++h) {
      const std::map<index_t, entry>& old = before[static_cast<std::size_t>(h)];
      const std::map<index_t, entry> now = entries_of(cache, b, h);
      const std::vector<index_t> wanted = survivors(old, d.limits, d.tokens);
      REQUIRE(now.size() == wanted.size());
      const auto head = cache.ref().head(b, h);
      for (const index_t position : wanted) {
        REQUIRE(now.count(position) == 1);
        const entry& e = now.at(position);
        REQUIRE(same_token(e, old.at(position)));
        if (old.at(position).slot < static_cast<index_t>(wanted.size())) {
          REQUIRE(e.slot == old.at(position).slot);
        }
        if (position >= d.tokens - d.limits.window) {
          REQUIRE(head.ring[position % d.limits.window] == e.slot);
        }
      }
      for (index_t slot = *head.held; slot < cache.ref().slots(); ++slot) {
        REQUIRE(head.positions[slot] == -1);
        REQUIRE(std::isnan(head.priorities[slot]));
        REQUIRE(head.pinned[slot] == 0);
      }
    }
  }
}

TEST_CASE("a prompt held whole, compacted, then continued holds what a cache does that evicted from the start") {
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(91'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const drawn d = draw(random);
    const index_t later = random.integer(0, 40);
    kvpop::cache_shape plain = d.shape;
    plain.prompt = 0;
    const block whole(d.shape, d.limits);
    const block steady(plain, d.limits);
    const token_stream<float> stream = draw_tokens(random, d, d.tokens + later);
    const echo_scorer scorer{.lag = d.lag};
    const kvpop::host_context here;
    kvpop::append(here, whole.ref(), scorer, stream.keys(0, d.tokens), stream.values(0, d.tokens));
    kvpop::append(here, steady.ref(), scorer, stream.keys(0, d.tokens), stream.values(0, d.tokens));
    std::vector<std::byte> memory(kvpop::compact_workspace(whole.ref()));
    for (index_t b = 0; b < d.shape.sequences; ++b) {
      kvpop::compact(here, whole.ref(), b, {memory.data(), memory.size()});
    }
    kvpop::append(here, whole.ref(), scorer, stream.keys(d.tokens, later), stream.values(d.tokens, later));
    kvpop::append(here, steady.ref(), scorer, stream.keys(d.tokens, later), stream.values(d.tokens, later));
    for (index_t b = 0; b < d.shape.sequences; ++b) {
      for (index_t h = 0; h < d.shape.kv_heads; ++h) {
        const auto x = entries_of(whole, b, h);
        const auto y = entries_of(steady, b, h);
        REQUIRE(x.size() == y.size());
        for (const auto& [position, e] : y) {
          REQUIRE(x.count(position) == 1);
          REQUIRE(same_token(x.at(position), e));
        }
      }
    }
  }
}

TEST_CASE("compacting twice is compacting once") {
  generator random(92);
  const kvpop::budget limits{.sinks = 1, .window = 2, .topk = 3};
  const block cache({.prompt = 40}, limits);
  const token_stream<float> stream(random, 1, 40, 1, key_dim, value_dim);
  kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, stream.keys(0, 40), stream.values(0, 40));
  std::vector<std::byte> memory(kvpop::compact_workspace(cache.ref()));
  kvpop::compact(kvpop::host_context(), cache.ref(), 0, {memory.data(), memory.size()});
  const std::vector<std::byte> once = cache.snapshot();
  kvpop::compact(kvpop::host_context(), cache.ref(), 0, {memory.data(), memory.size()});
  CHECK(once == cache.snapshot());
}

TEST_CASE("a sequence outside the cache and a workspace that is too small are refused, and nothing changes") {
  generator random(93);
  const block cache({.sequences = 2, .kv_heads = 2, .prompt = 40}, {.sinks = 1, .window = 2, .topk = 3});
  const token_stream<float> stream(random, 2, 30, 2, key_dim, value_dim);
  kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, stream.keys(0, 30), stream.values(0, 30));
  const std::vector<std::byte> before = cache.snapshot();
  const std::size_t bytes = kvpop::compact_workspace(cache.ref());
  std::vector<std::byte> memory(bytes);
  const auto refused = [&](index_t sequence, std::size_t given) {
    const std::string message = message_of([&] {
      kvpop::compact(kvpop::host_context(), cache.ref(), sequence, {memory.data(), given});
    });
    CHECK(before == cache.snapshot());
    return message;
  };
  CHECK(refused(2, bytes) == "kvpop: sequence is 2; the cache has 2");
  CHECK(refused(-1, bytes) == "kvpop: sequence is -1; it must be at least 0");
  CHECK(
      refused(0, bytes - 64).find("kvpop: compact: workspace.bytes is " + std::to_string(bytes - 64) + "; at least ") ==
      0);
  CHECK(refused(1, 0).find("kvpop: compact: workspace.bytes is 0; at least ") == 0);
}
