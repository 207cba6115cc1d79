#include "kvpop/cache/append.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "kvpop/cache/pin.hpp"
#include "kvpop/core/thread_pool.hpp"
#include "support/any_scorer.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"
#include "support/token_stream.hpp"

// The laws of append, for every scorer that gives scores. The model test checks what is kept; here it is the freedom of
// handing tokens over that must change nothing.

using namespace kvpop_test;

namespace {

// A stored type, head dimensions and the type of what is appended.
template <class T, index_t KeyDim, index_t ValueDim, class In>
struct setting {
  using type = T;
  using input = In;
  static constexpr index_t key_dim = KeyDim;
  static constexpr index_t value_dim = ValueDim;
  using block = cache_block<T, KeyDim, ValueDim>;
};

using kvpop::bfloat16;
using kvpop::float16;

#define KVPOP_TEST_SETTINGS                                                                                  \
  setting<float, 1, 1, float>, setting<float, 3, 7, float16>, setting<bfloat16, 17, 3, float>,               \
      setting<float16, 7, 7, bfloat16>, setting<float, 64, 64, float>, setting<bfloat16, 128, 64, bfloat16>, \
      setting<float16, 64, 128, float>
constexpr int settings = 7;
constexpr int draws_a_setting = 1'050 / settings;  // at least 1,000 draws of every law in all

struct scene {
  kvpop::cache_shape shape;
  kvpop::budget limits;
  index_t tokens = 0;
};

scene draw_scene(generator& random) {
  scene s;
  s.shape = {.sequences = random.integer(1, 3), .kv_heads = random.pick<index_t>({1, 1, 2, 3, 5})};
  s.limits = {.sinks = random.pick<index_t>({0, 1, 3, 4, 11}),
              .window = random.pick<index_t>({1, 2, 3, 5, 7, 13}),
              .topk = random.pick<index_t>({0, 1, 2, 5, 13, 71})};
  // Sometimes fewer tokens than sinks or window, mostly more than the budget.
  s.tokens = random.chance(0.2) ? random.integer(0, 7) : random.integer(1, s.limits.capacity() + 30);
  return s;
}

std::vector<index_t> draw_chunks(generator& random, index_t tokens) {
  std::vector<index_t> chunks;
  while (tokens > 0) {
    chunks.push_back(random.integer(0, std::min<index_t>(tokens, random.pick<index_t>({1, 2, 5, 17, 1000}))));
    tokens -= chunks.back();
  }
  return chunks;
}

template <class Cache, class Scorer, class In>
void append_chunks(const kvpop::host_context& ctx, const Cache& cache, const Scorer& scorer,
                   const token_stream<In>& stream, const std::vector<index_t>& chunks) {
  index_t begin = 0;
  for (const index_t n : chunks) {
    kvpop::append(ctx, cache, scorer, stream.keys(begin, n), stream.values(begin, n));
    begin += n;
  }
}

// Random scenes, each with one random scorer: f(random, scene, scorer, stream).
template <class Setting, class F>
void draw_all(std::uint64_t stream_id, F&& f) {
  for (int i = 0; i < draws(draws_a_setting); ++i) {
    generator random(stream_id * 1'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    scene s = draw_scene(random);
    const any_scorer scorer(random, s.limits, s.shape.kv_heads, Setting::key_dim, Setting::value_dim);
    s.shape.memory = scorer.erased().memory_size() + random.integer(0, 2);
    const token_stream<typename Setting::input> stream(random, s.shape.sequences, s.tokens, s.shape.kv_heads,
                                                       Setting::key_dim, Setting::value_dim);
    f(random, s, scorer, stream);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("append of n is n appends, and any chunking", S, KVPOP_TEST_SETTINGS) {
  draw_all<S>(10, [](generator& random, const scene& s, const any_scorer& any, const auto& stream) {
    const erased_scorer scorer = any.erased();
    const typename S::block singly(s.shape, s.limits, 0x11);
    const typename S::block whole(s.shape, s.limits, 0x22);
    const typename S::block chunked(s.shape, s.limits, 0x33);
    for (index_t i = 0; i < s.tokens; ++i) {
      const auto k = stream.keys(i, 1);
      const auto v = stream.values(i, 1);
      using step = kvpop::step_view<const typename S::input>;
      kvpop::append(
          kvpop::host_context(), singly.ref(), scorer,
          step(k.data(), {s.shape.sequences, s.shape.kv_heads, S::key_dim}, {k.strides()[0], k.strides()[2], 1}),
          step(v.data(), {s.shape.sequences, s.shape.kv_heads, S::value_dim}, {v.strides()[0], v.strides()[2], 1}));
    }
    append_chunks(kvpop::host_context(), whole.ref(), scorer, stream, {s.tokens});
    append_chunks(kvpop::host_context(), chunked.ref(), scorer, stream, draw_chunks(random, s.tokens));
    const std::vector<std::byte> wanted = state_of(singly.ref());
    REQUIRE(wanted == state_of(whole.ref()));
    REQUIRE(wanted == state_of(chunked.ref()));
  });
}

TEST_CASE("the same with every scorer as its own type") {
  using S = setting<bfloat16, 5, 3, float>;
  draw_all<S>(15, [](generator& random, const scene& s, const any_scorer& any, const auto& stream) {
    const S::block erased(s.shape, s.limits, 0x11);
    append_chunks(kvpop::host_context(), erased.ref(), any.erased(), stream, {s.tokens});
    any.visit([&](const auto& scorer) {
      const S::block chunked(s.shape, s.limits, 0x33);
      append_chunks(kvpop::host_context(), chunked.ref(), scorer, stream, draw_chunks(random, s.tokens));
      REQUIRE(state_of(erased.ref()) == state_of(chunked.ref()));
    });
  });
}

TEST_CASE_TEMPLATE("a row of a batch does what it does alone, whatever its neighbours and its raggedness", S,
                   KVPOP_TEST_SETTINGS) {
  draw_all<S>(11, [](generator& random, const scene& s, const any_scorer& any, const auto& stream) {
    const erased_scorer scorer = any.erased();
    // Rows take their tokens in runs of their own lengths; what a chunk holds beyond a row's count is poison.
    using In = typename S::input;
    const index_t heads = s.shape.kv_heads;
    const index_t rows = s.shape.sequences;
    const typename S::block batch(s.shape, s.limits);
    std::vector<index_t> taken(static_cast<std::size_t>(rows), 0);
    const auto shortest = [&] { return *std::min_element(taken.begin(), taken.end()); };
    while (shortest() < s.tokens) {
      const index_t tokens = random.pick<index_t>({1, 1, 2, 5, 19});
      std::vector<index_t> counts;
      const In nan = kvpop::scalar_traits<In>::from_float(std::bit_cast<float>(0x7fc00000U));
      std::vector<In> k(static_cast<std::size_t>(rows * tokens * heads * S::key_dim), nan);
      std::vector<In> v(static_cast<std::size_t>(rows * tokens * heads * S::value_dim), nan);
      for (index_t b = 0; b < rows; ++b) {
        index_t& at = taken[static_cast<std::size_t>(b)];
        const index_t n = random.integer(0, std::min(tokens, s.tokens - at));
        const auto own_k = stream.keys_of(b, at, n);
        const auto own_v = stream.values_of(b, at, n);
        std::copy_n(own_k.data(), n * heads * S::key_dim, k.data() + b * tokens * heads * S::key_dim);
        std::copy_n(own_v.data(), n * heads * S::value_dim, v.data() + b * tokens * heads * S::value_dim);
        counts.push_back(n);
        at += n;
      }
      const kvpop::chunk_view<const In> keys(k.data(), {rows, tokens, heads, S::key_dim});
      const kvpop::chunk_view<const In> values(v.data(), {rows, tokens, heads, S::value_dim});
      kvpop::append(kvpop::host_context(), batch.ref(), scorer, keys, values, {.counts = counts, .evicted = {}});
    }
    kvpop::cache_shape one = s.shape;
    one.sequences = 1;
    for (index_t b = 0; b < rows; ++b) {
      const typename S::block lone(one, s.limits);
      kvpop::append(kvpop::host_context(), lone.ref(), scorer, stream.keys_of(b, 0, s.tokens),
                    stream.values_of(b, 0, s.tokens));
      REQUIRE(state_of(batch.ref(), b) == state_of(lone.ref(), 0));
    }
  });
}

namespace {

// An engine's own parallel_for that runs tasks in an order of its choice, on the calling thread.
struct reversed {
  template <class F>
  void operator()(index_t tasks, F&& f) {
    for (index_t i = tasks; i-- > 0;) {
      f(i);
    }
  }
};

struct shuffled {
  generator* random;

  template <class F>
  void operator()(index_t tasks, F&& f) {
    std::vector<index_t> order(static_cast<std::size_t>(tasks));
    std::iota(order.begin(), order.end(), index_t{0});
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(random->integer(0, static_cast<index_t>(i) - 1))]);
    }
    for (const index_t i : order) {
      f(i);
    }
  }
};

}  // namespace

TEST_CASE_TEMPLATE("threads, orders of tasks and repetition change nothing", S, KVPOP_TEST_SETTINGS) {
  kvpop::thread_pool two(2);
  kvpop::thread_pool three(3);
  kvpop::thread_pool seven(7);
  draw_all<S>(12, [&](generator& random, const scene& s, const any_scorer& any, const auto& stream) {
    const erased_scorer scorer = any.erased();
    const std::vector<index_t> chunks = draw_chunks(random, s.tokens);
    shuffled any_order{&random};
    reversed backwards;
    const kvpop::host_context contexts[] = {kvpop::host_context(),
                                            kvpop::host_context(),
                                            two.context(),
                                            three.context(),
                                            seven.context(),
                                            kvpop::host_context(backwards, 4),
                                            kvpop::host_context(any_order, 4)};
    std::vector<std::byte> wanted;
    for (const kvpop::host_context& ctx : contexts) {
      const typename S::block cache(s.shape, s.limits, 0x77);
      append_chunks(ctx, cache.ref(), scorer, stream, chunks);
      if (wanted.empty()) {
        wanted = cache.snapshot();
      }
      REQUIRE(cache.size() == wanted.size());
      REQUIRE(std::memcmp(cache.data(), wanted.data(), wanted.size()) == 0);  // every byte, empty slots included
    }
  });
}

namespace {

// Marks the bytes of `count` elements at `at` as free to change.
template <class T>
void allow(std::vector<bool>& free, const std::byte* block, const T* at, index_t count) {
  const auto first = reinterpret_cast<const std::byte*>(at) - block;
  for (std::ptrdiff_t i = 0; i < count * static_cast<std::ptrdiff_t>(sizeof(T)); ++i) {
    free[static_cast<std::size_t>(first + i)] = true;
  }
}

}  // namespace

TEST_CASE_TEMPLATE("a step writes one key, one value and one token's bookkeeping a head, nothing else", S,
                   KVPOP_TEST_SETTINGS) {
  draw_all<S>(13, [](generator& random, const scene& s, const any_scorer& any, const auto& stream) {
    const erased_scorer scorer = any.erased();
    const typename S::block cache(s.shape, s.limits, static_cast<unsigned char>(random.integer(0, 255)));
    const auto ref = cache.ref();
    const index_t delay = kvpop::delay_of(scorer);
    std::vector<kvpop::eviction> evicted(static_cast<std::size_t>(s.shape.sequences * s.shape.kv_heads));
    for (index_t q = 0; q < s.tokens; ++q) {
      const std::vector<std::byte> before = cache.snapshot();
      std::vector<index_t> held;
      for (index_t r = 0; r < s.shape.sequences * s.shape.kv_heads; ++r) {
        held.push_back(ref.held(r / s.shape.kv_heads, r % s.shape.kv_heads));
      }
      kvpop::append_params params;
      params.evicted = {evicted.data(), {s.shape.sequences, 1, s.shape.kv_heads}};
      kvpop::append(kvpop::host_context(), ref, scorer, stream.keys(q, 1), stream.values(q, 1), params);
      std::vector<bool> free(cache.size(), false);
      allow(free, cache.data(), ref.arrays().seen, s.shape.sequences);
      for (index_t r = 0; r < s.shape.sequences * s.shape.kv_heads; ++r) {
        const auto head = ref.head(r / s.shape.kv_heads, r % s.shape.kv_heads);
        const index_t was_held = held[static_cast<std::size_t>(r)];
        const bool full = was_held == s.limits.capacity();
        const kvpop::eviction& gone = evicted[static_cast<std::size_t>(r)];
        REQUIRE((gone.position >= 0) == full);
        const index_t slot = full ? gone.slot : was_held;
        REQUIRE(*head.held == (full ? was_held : was_held + 1));
        REQUIRE(head.positions[slot] == q);
        REQUIRE(head.ring[q % s.limits.window] == slot);
        allow(free, cache.data(), head.keys + slot * S::key_dim, S::key_dim);
        allow(free, cache.data(), head.values + slot * S::value_dim, S::value_dim);
        allow(free, cache.data(), head.positions + slot, 1);
        allow(free, cache.data(), head.priorities + slot, 1);
        allow(free, cache.data(), head.pinned + slot, 1);
        allow(free, cache.data(), head.ring + q % s.limits.window, 1);
        allow(free, cache.data(), head.memory, kvpop::memory_size_of(scorer));
        allow(free, cache.data(), head.held, full ? 0 : 1);
        if (q >= delay) {  // the token that was scored; it may have been the one evicted
          index_t* end = head.positions + s.limits.capacity();
          const index_t* at = std::find(head.positions, end, q - delay);
          if (at != end) {
            allow(free, cache.data(), head.priorities + (at - head.positions), 1);
          }
        }
      }
      const std::byte* after = cache.data();
      bool only_those = true;
      for (std::size_t i = 0; i < cache.size(); ++i) {
        only_those = only_those && (free[i] || before[i] == after[i]);
      }
      REQUIRE(only_those);
    }
  });
}

namespace {

// Positions kept at query q by the definition: sinks, window, and the topk best of all that ever left the window.
std::vector<index_t> kept_by_definition(const std::vector<double>& priorities, index_t q, const kvpop::budget& b) {
  std::vector<index_t> kept;
  std::vector<index_t> eligible;
  for (index_t t = 0; t <= q; ++t) {
    if (t < b.sinks || t > q - b.window) {
      kept.push_back(t);
    } else {
      eligible.push_back(t);
    }
  }
  std::sort(eligible.begin(), eligible.end(), [&](index_t x, index_t y) {  // best first
    const double px = priorities[static_cast<std::size_t>(x)];
    const double py = priorities[static_cast<std::size_t>(y)];
    const int class_x = std::isnan(px) ? 1 : 0;
    const int class_y = std::isnan(py) ? 1 : 0;
    if (class_x != class_y) return class_x < class_y;
    if (class_x == 0 && px > py) return true;
    if (class_x == 0 && px < py) return false;
    return x > y;
  });
  eligible.resize(std::min(eligible.size(), static_cast<std::size_t>(b.topk)));
  kept.insert(kept.end(), eligible.begin(), eligible.end());
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace

TEST_CASE("what is held is sinks, window and the best of all that left it; a held token stays in its slot") {
  for (int i = 0; i < draws(2'000); ++i) {
    generator random(14'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const scene s = draw_scene(random);
    const index_t heads = s.shape.kv_heads;
    const index_t length = std::min<index_t>(s.tokens, 60);
    std::vector<float> decay;
    for (index_t h = 0; h < heads; ++h) {
      decay.push_back(random.chance(0.5) ? 0.0F : -static_cast<float>(random.uniform()));
    }
    token_stream<float> stream(random, 1, length, heads, 1, 1);
    std::vector<std::vector<double>> priorities(static_cast<std::size_t>(heads));
    for (index_t h = 0; h < heads; ++h) {
      for (index_t t = 0; t < length; ++t) {
        stream.key(0, t, h, 0) = random.score();
        const double lg = decay[static_cast<std::size_t>(h)];
        priorities[static_cast<std::size_t>(h)].push_back(static_cast<double>(stream.key(0, t, h, 0)) -
                                                          static_cast<double>(t) * lg);
      }
    }
    const cache_block<float, 1, 1> cache({.sequences = 1, .kv_heads = heads}, s.limits);
    const echo_scorer scorer{random.integer(0, s.limits.window), decay.data()};
    std::map<std::pair<index_t, index_t>, index_t> slot_of;  // (head, position)
    index_t q = -1;
    for (const index_t n : draw_chunks(random, length)) {
      kvpop::append(kvpop::host_context(), cache.ref(), scorer, stream.keys(q + 1, n), stream.values(q + 1, n));
      q += n;
      for (index_t h = 0; h < heads; ++h) {
        const auto head = cache.ref().head(0, h);
        std::vector<index_t> held(head.positions, head.positions + *head.held);
        for (index_t slot = 0; slot < *head.held; ++slot) {
          const auto known = slot_of.emplace(std::pair(h, held[static_cast<std::size_t>(slot)]), slot).first;
          REQUIRE(known->second == slot);
        }
        std::sort(held.begin(), held.end());
        REQUIRE(held == kept_by_definition(priorities[static_cast<std::size_t>(h)], q, s.limits));
      }
    }
  }
}
