#include "kvpop/attention/prefill.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "kvpop/score/h2o.hpp"
#include "kvpop/score/snapkv.hpp"
#include "kvpop/score/tova.hpp"
#include "support/any_scorer.hpp"
#include "support/attention_model.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/token_stream.hpp"

// prefill against n single steps (append, decode_attention), and against masked attention in double under the death times
// that those steps report.

using namespace kvpop_test;

namespace {

using kvpop::bfloat16;
using kvpop::float16;

// Stored type, head dimensions, and the type of queries and outputs.
template <class T, index_t KeyDim, index_t ValueDim, class Q>
struct setting {
  using type = T;
  using query = Q;
  static constexpr index_t key_dim = KeyDim;
  static constexpr index_t value_dim = ValueDim;
  using block = cache_block<T, KeyDim, ValueDim>;
};

// Relative to the largest value: fp32 sums, then one rounding to the type of the output.
template <class Out>
constexpr double tolerance = 2e-5;
template <>
constexpr double tolerance<float16> = 1.0 / 1024;
template <>
constexpr double tolerance<bfloat16> = 1.0 / 128;

struct scene {
  kvpop::cache_shape shape;
  kvpop::budget limits;
  index_t tokens = 0;
  index_t group = 1;
  kvpop::attention_params attention;

  [[nodiscard]] index_t query_heads() const { return shape.kv_heads * group; }
};

scene draw_scene(generator& random) {
  scene s;
  s.shape = {.sequences = random.integer(1, 2), .kv_heads = random.pick<index_t>({1, 1, 2, 3})};
  s.group = random.pick<index_t>({1, 2, 3, 5});
  s.limits = {.sinks = random.pick<index_t>({0, 1, 3, 11}),
              .window = random.pick<index_t>({1, 2, 5, 13}),
              .topk = random.pick<index_t>({0, 1, 5, 13, 71})};
  // Mostly a little more than the budget; now and then over several tiles of 64.
  s.tokens = random.chance(0.1) ? random.integer(120, 210) : random.integer(0, s.limits.capacity() + 20);
  s.attention.scale = random.pick({0.0F, 0.3F, 1.0F});
  s.attention.soft_cap = random.pick({0.0F, 0.0F, 0.0F, 2.5F});
  s.attention.sliding_window = random.pick<index_t>({0, 0, 0, 1, 7, 64});
  return s;
}

// Everything that goes in, and all that comes out of a way of running it.
template <class S>
struct inputs {
  using Q = typename S::query;
  scene s;
  token_stream<float> kv;
  token_stream<Q> q;  // its keys are the queries

  inputs(generator& random, const scene& drawn)
      : s(drawn),
        kv(random, s.shape.sequences, s.tokens, s.shape.kv_heads, S::key_dim, S::value_dim),
        q(random, s.shape.sequences, s.tokens, s.query_heads(), S::key_dim, 1) {
    if (random.chance(0.4)) {
      aim_queries(random);
    }
  }

  // Needles: every query looks hard at the key of one position at or before its own, dead or alive.
  void aim_queries(generator& random) {
    for (index_t b = 0; b < s.shape.sequences; ++b) {
      for (index_t t = 0; t < s.tokens; ++t) {
        for (index_t h = 0; h < s.query_heads(); ++h) {
          const index_t target = random.integer(0, t);
          for (index_t d = 0; d < S::key_dim; ++d) {
            q.key(b, t, h, d) = kvpop::scalar_traits<Q>::from_float(6.0F * kv.key(b, target, h / s.group, d));
          }
        }
      }
    }
  }
};

template <class S>
struct results {
  std::vector<typename S::query> out;
  std::vector<float> lse;
  std::vector<kvpop::eviction> evicted;

  explicit results(const scene& s)
      : out(static_cast<std::size_t>(s.shape.sequences * s.tokens * s.query_heads() * S::value_dim)),
        lse(static_cast<std::size_t>(s.shape.sequences * s.tokens * s.query_heads())),
        evicted(static_cast<std::size_t>(s.shape.sequences * s.tokens * s.shape.kv_heads)) {}

  [[nodiscard]] kvpop::chunk_view<typename S::query> out_of(const scene& s, index_t begin, index_t n) {
    const index_t row = s.query_heads() * S::value_dim;
    return {out.data() + begin * row,
            {s.shape.sequences, n, s.query_heads(), S::value_dim},
            {s.tokens * row, row, S::value_dim, 1}};
  }
  [[nodiscard]] auto lse_of(const scene& s, index_t begin, index_t n) {
    return kvpop::view<float, kvpop::host_memory, kvpop::axis::sequence, kvpop::axis::token, kvpop::axis::head>(
        lse.data() + begin * s.query_heads(), {s.shape.sequences, n, s.query_heads()},
        {s.tokens * s.query_heads(), s.query_heads(), 1});
  }
  [[nodiscard]] kvpop::eviction_view evicted_of(const scene& s, index_t begin, index_t n) {
    return {evicted.data() + begin * s.shape.kv_heads,
            {s.shape.sequences, n, s.shape.kv_heads},
            {s.tokens * s.shape.kv_heads, s.shape.kv_heads, 1}};
  }
};

// A workspace of exactly the bytes that were asked for, with a guard behind it.
class guarded_workspace {
 public:
  guarded_workspace(generator& random, std::size_t bytes)
      : bytes_(bytes), shift_(static_cast<std::size_t>(random.integer(0, 63))), memory_(bytes + 192, std::byte{0x5a}) {}
  [[nodiscard]] kvpop::workspace get() { return {memory_.data() + shift_, bytes_}; }
  [[nodiscard]] bool intact() const {
    const auto guard = [](std::byte x) { return x == std::byte{0x5a}; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<std::ptrdiff_t>(shift_), guard) &&
           std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(shift_ + bytes_), memory_.end(), guard);
  }

 private:
  std::size_t bytes_;
  std::size_t shift_;
  std::vector<std::byte> memory_;
};

// One token at a time: append, then decode_attention.
template <class S, class Cache, class Scorer>
void run_steps(const Cache& cache, const Scorer& scorer, inputs<S>& in, results<S>& to) {
  const scene& s = in.s;
  const auto first = [](const auto& x) {
    using element = typename std::remove_cvref_t<decltype(x)>::element_type;
    return kvpop::step_view<element>(x.data(), {x.extents()[0], x.extents()[2], x.extents()[3]},
                                     {x.strides()[0], x.strides()[2], 1});
  };
  for (index_t t = 0; t < s.tokens; ++t) {
    kvpop::append_params params;
    params.evicted = to.evicted_of(s, t, 1);
    kvpop::append(kvpop::host_context(), cache, scorer, in.kv.keys(t, 1), in.kv.values(t, 1), params);
    const auto lse = to.lse_of(s, t, 1);
    const kvpop::attention_outputs outputs{{lse.data(), {s.shape.sequences, s.query_heads()}, {lse.strides()[0], 1}},
                                           {}};
    kvpop::decode_attention(kvpop::host_context(), first(in.q.keys(t, 1)), cache, first(to.out_of(s, t, 1)),
                            s.attention, outputs);
  }
}

// Death times of one head, from what single steps evicted: tokens that stayed never die.
template <class S>
std::vector<index_t> deaths_of(const scene& s, results<S>& from, index_t b, index_t h) {
  std::vector<index_t> deaths(static_cast<std::size_t>(s.tokens), std::numeric_limits<index_t>::max());
  for (index_t t = 0; t < s.tokens; ++t) {
    const index_t gone = from.evicted_of(s, 0, s.tokens)(b, t, h).position;
    if (gone >= 0) {
      deaths[static_cast<std::size_t>(gone)] = t;
    }
  }
  return deaths;
}

bool visible(const scene& s, const std::vector<index_t>& deaths, index_t t, index_t q) {
  const index_t window = s.attention.sliding_window;
  return t <= q && q < deaths[static_cast<std::size_t>(t)] && (window == 0 || t > q - window);
}

// Largest differences to masked attention in double, in units of what is allowed.
struct errors {
  double out = 0;
  double lse = 0;
};

template <class S>
errors compare_with_oracle(inputs<S>& in, results<S>& steps, results<S>& got) {
  using T = typename S::type;
  const scene& s = in.s;
  errors e;
  const logit_rules rules{
      s.attention.scale != 0 ? static_cast<double>(s.attention.scale) : 1 / std::sqrt(static_cast<double>(S::key_dim)),
      static_cast<double>(s.attention.soft_cap)};
  for (index_t b = 0; b < s.shape.sequences; ++b) {
    for (index_t h = 0; h < s.shape.kv_heads; ++h) {
      const std::vector<index_t> deaths = deaths_of(s, steps, b, h);
      std::vector<numbers> keys;
      std::vector<numbers> values;
      double largest = 1;
      for (index_t t = 0; t < s.tokens; ++t) {
        std::vector<T> row(static_cast<std::size_t>(std::max(S::key_dim, S::value_dim)));
        kvpop::round_to(in.kv.keys(0, s.tokens).row(b, t, h), row.data(), S::key_dim);
        keys.push_back(as_numbers(row.data(), S::key_dim));
        kvpop::round_to(in.kv.values(0, s.tokens).row(b, t, h), row.data(), S::value_dim);
        values.push_back(as_numbers(row.data(), S::value_dim));
        for (const double x : values.back()) {
          largest = std::fmax(largest, std::fabs(x));
        }
      }
      for (index_t t = 0; t < s.tokens; ++t) {
        std::vector<const numbers*> seen_keys;
        std::vector<const numbers*> seen_values;
        for (index_t i = 0; i <= t; ++i) {
          if (visible(s, deaths, i, t)) {
            seen_keys.push_back(&keys[static_cast<std::size_t>(i)]);
            seen_values.push_back(&values[static_cast<std::size_t>(i)]);
          }
        }
        for (index_t g = h * s.group; g < (h + 1) * s.group; ++g) {
          const attended_row wanted = attend(as_numbers(in.q.keys(0, s.tokens).row(b, t, g), S::key_dim), seen_keys,
                                             seen_values, S::value_dim, rules);
          for (index_t d = 0; d < S::value_dim; ++d) {
            const double out = static_cast<double>(static_cast<float>(got.out_of(s, 0, s.tokens)(b, t, g, d)));
            const double off = std::fabs(out - wanted.out[static_cast<std::size_t>(d)]);
            e.out = std::isnan(off) ? 1e9 : std::fmax(e.out, off / (tolerance<typename S::query> * largest));
          }
          const double lse = static_cast<double>(got.lse_of(s, 0, s.tokens)(b, t, g));
          const double off = std::fabs(lse - wanted.lse);
          e.lse = std::isnan(off) ? 1e9 : std::fmax(e.lse, off / (tolerance<float> * (1 + std::fabs(wanted.lse))));
        }
      }
    }
  }
  return e;
}

// Pairs (tile of 64 queries, tile of 64 keys) in which some query sees some key, from positions and deaths alone.
template <class S>
index_t count_tiles(const scene& s, const typename S::block& before, results<S>& steps, index_t begin, index_t n) {
  index_t visited = 0;
  for (index_t b = 0; b < s.shape.sequences; ++b) {
    for (index_t h = 0; h < s.shape.kv_heads; ++h) {
      const std::vector<index_t> deaths = deaths_of(s, steps, b, h);
      const auto head = before.ref().head(b, h);
      const std::vector<index_t> held(head.positions, head.positions + *head.held);
      for (index_t first = begin; first < begin + n; first += 64) {
        const index_t last = std::min(first + 64, begin + n) - 1;
        std::vector<index_t> fresh;
        for (index_t t = begin; t <= last; ++t) {
          fresh.push_back(t);
        }
        for (const std::vector<index_t>* keys : {&held, static_cast<const std::vector<index_t>*>(&fresh)}) {
          for (std::size_t tile = 0; tile < keys->size(); tile += 64) {
            bool any = false;
            for (std::size_t i = tile; i < std::min(tile + 64, keys->size()); ++i) {
              for (index_t q = first; q <= last; ++q) {
                any = any || visible(s, deaths, (*keys)[i], q);
              }
            }
            visited += any ? 1 : 0;
          }
        }
      }
    }
  }
  return visited;
}

template <class S>
void check_prefill(std::uint64_t stream, int count) {
  kvpop::thread_pool two(2);
  kvpop::thread_pool three(3);
  for (int i = 0; i < draws(count); ++i) {
    generator random(stream * 1'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    scene s = draw_scene(random);
    const any_scorer any(random, s.limits, s.shape.kv_heads, S::key_dim, S::value_dim);
    const erased_scorer scorer = any.erased();
    s.shape.memory = scorer.memory_size();
    inputs<S> in(random, s);
    const typename S::block single(s.shape, s.limits, 0x44);
    const typename S::block chunked(s.shape, s.limits, 0x55);
    results<S> steps(s);
    results<S> got(s);
    run_steps<S>(single.ref(), scorer, in, steps);

    const kvpop::host_context contexts[] = {kvpop::host_context(), two.context(), three.context()};
    index_t begin = 0;
    while (begin < s.tokens) {
      const kvpop::host_context& ctx = contexts[random.integer(0, 2)];
      const index_t n =
          random.integer(0, std::min<index_t>(s.tokens - begin, random.pick<index_t>({1, 5, 64, 100, 1000})));
      guarded_workspace memory(random, kvpop::prefill_workspace<erased_scorer>(ctx, chunked.ref(), n, s.query_heads()));
      index_t visited = -1;
      kvpop::prefill_params params;
      params.attention = s.attention;
      params.evicted = got.evicted_of(s, begin, n);
      params.lse = got.lse_of(s, begin, n);
      params.visited_tiles = &visited;
      const index_t wanted = count_tiles<S>(s, chunked, steps, begin, n);
      kvpop::prefill(ctx, chunked.ref(), scorer, in.q.keys(begin, n), in.kv.keys(begin, n), in.kv.values(begin, n),
                     got.out_of(s, begin, n), params, memory.get());
      REQUIRE(visited == wanted);
      REQUIRE(memory.intact());
      begin += n;
    }
    REQUIRE(state_of(single.ref()) == state_of(chunked.ref()));
    REQUIRE(steps.evicted == got.evicted);
    const errors e = compare_with_oracle<S>(in, steps, got);
    const errors d = compare_with_oracle<S>(in, steps, steps);
    REQUIRE(e.out < 1);
    REQUIRE(e.lse < 1);
    REQUIRE(d.out < 1);  // so prefill and decode are within twice the tolerance of each other
    REQUIRE(d.lse < 1);
  }
}

}  // namespace

TEST_CASE("prefill is single steps, and masked attention under their death times: f32 3/7") {
  check_prefill<setting<float, 3, 7, float>>(60, 500);
}
TEST_CASE("prefill is single steps, and masked attention under their death times: bf16 17/3, bf16 outputs") {
  check_prefill<setting<bfloat16, 17, 3, bfloat16>>(61, 300);
}
TEST_CASE("prefill is single steps, and masked attention under their death times: f16 64/32, f16 outputs") {
  check_prefill<setting<float16, 64, 32, float16>>(62, 150);
}
TEST_CASE("prefill is single steps, and masked attention under their death times: f32 64/64") {
  check_prefill<setting<float, 64, 64, float>>(63, 100);
}

TEST_CASE("rows of different length: each does what it does alone, and what is past a count is not read") {
  using S = setting<bfloat16, 5, 3, float>;
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(64'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    scene s = draw_scene(random);
    s.shape.sequences = 3;
    s.tokens = random.integer(1, 90);
    const any_scorer any(random, s.limits, s.shape.kv_heads, S::key_dim, S::value_dim);
    const erased_scorer scorer = any.erased();
    s.shape.memory = scorer.memory_size();
    inputs<S> in(random, s);
    const index_t earlier = random.integer(0, s.tokens);  // tokens that all rows have already
    const index_t n = s.tokens - earlier;
    const std::vector<index_t> counts = {random.integer(0, n), random.integer(0, n), n};
    scene alone = s;
    alone.shape.sequences = 1;

    const S::block batch(s.shape, s.limits);
    results<S> got(s);
    std::vector<std::byte> scratch(
        kvpop::prefill_workspace<erased_scorer>(kvpop::host_context(), batch.ref(), s.tokens, s.query_heads()));
    const auto part = [&](index_t begin, index_t length, std::span<const index_t> own) {
      kvpop::prefill_params params;
      params.attention = s.attention;
      params.counts = own;
      params.evicted = got.evicted_of(s, begin, length);
      params.lse = got.lse_of(s, begin, length);
      kvpop::prefill(kvpop::host_context(), batch.ref(), scorer, in.q.keys(begin, length), in.kv.keys(begin, length),
                     in.kv.values(begin, length), got.out_of(s, begin, length), params,
                     {scratch.data(), scratch.size()});
    };
    part(0, earlier, {});
    for (index_t b = 0; b < 3; ++b) {  // poison behind each count
      for (index_t t = earlier + counts[static_cast<std::size_t>(b)]; t < s.tokens; ++t) {
        in.kv.key(b, t, 0, 0) = std::numeric_limits<float>::quiet_NaN();
        in.q.key(b, t, 0, 0) = std::numeric_limits<float>::quiet_NaN();
      }
    }
    const std::vector<kvpop::eviction> evicted_before = got.evicted;
    part(earlier, n, counts);
    for (index_t b = 0; b < 3; ++b) {
      const index_t length = earlier + counts[static_cast<std::size_t>(b)];
      const S::block lone(alone.shape, s.limits);
      std::vector<float> out(static_cast<std::size_t>(s.tokens * s.query_heads() * S::value_dim));
      const kvpop::chunk_view<float> out_view(out.data(), {1, length, s.query_heads(), S::value_dim});
      kvpop::prefill_params params;
      params.attention = s.attention;
      // The same two chunks: outputs are then the same bits.
      for (const auto& [begin, count] : {std::pair(index_t{0}, earlier), std::pair(earlier, length - earlier)}) {
        const kvpop::chunk_view<float> own(out.data() + begin * s.query_heads() * S::value_dim,
                                           {1, count, s.query_heads(), S::value_dim});
        kvpop::prefill(kvpop::host_context(), lone.ref(), scorer, in.q.keys_of(b, begin, count),
                       in.kv.keys_of(b, begin, count), in.kv.values_of(b, begin, count), own, params,
                       {scratch.data(), scratch.size()});
      }
      REQUIRE(state_of(batch.ref(), b) == state_of(lone.ref(), 0));
      for (index_t t = 0; t < s.tokens; ++t) {
        for (index_t h = 0; h < s.shape.kv_heads && t >= length; ++h) {
          REQUIRE(got.evicted_of(s, 0, s.tokens)(b, t, h) == kvpop::eviction{});  // never written
        }
        if (t < length) {
          REQUIRE(std::memcmp(got.out_of(s, 0, s.tokens).row(b, t, 0), out_view.row(0, t, 0),
                              static_cast<std::size_t>(s.query_heads() * S::value_dim) * sizeof(float)) == 0);
        }
      }
    }
  }
}

namespace {

// A scorer that follows attention, by prefill in random chunks: every eviction is that of the plain simulation in double,
// and so is every output.
template <class S, class Scorer>
void check_follower(std::uint64_t stream, int count, const Scorer& scorer, bool accumulates, auto&& budget_for) {
  kvpop::thread_pool two(2);
  index_t evictions = 0;
  for (int i = 0; i < draws(count); ++i) {
    generator random(stream * 1'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    scene s;
    s.shape = {.sequences = random.integer(1, 2), .kv_heads = random.integer(1, 2)};
    s.limits = budget_for(random);
    s.group = random.integer(1, 3);
    s.tokens = random.integer(0, s.limits.capacity() + 40);
    s.attention.scale = 0.5F;
    inputs<S> in(random, s);
    const typename S::block cache(s.shape, s.limits);
    results<S> got(s);
    index_t begin = 0;
    while (begin < s.tokens) {
      const kvpop::host_context ctx = random.chance(0.5) ? kvpop::host_context() : two.context();
      const index_t n = random.integer(0, s.tokens - begin);
      guarded_workspace memory(random, kvpop::prefill_workspace<Scorer>(ctx, cache.ref(), n, s.query_heads()));
      index_t visited = -1;
      kvpop::prefill_params params;
      params.attention = s.attention;
      params.evicted = got.evicted_of(s, begin, n);
      params.lse = got.lse_of(s, begin, n);
      params.visited_tiles = &visited;
      kvpop::prefill(ctx, cache.ref(), scorer, in.q.keys(begin, n), in.kv.keys(begin, n), in.kv.values(begin, n),
                     got.out_of(s, begin, n), params, memory.get());
      REQUIRE(visited == 0);
      REQUIRE(memory.intact());
      begin += n;
    }
    for (index_t b = 0; b < s.shape.sequences; ++b) {
      for (index_t h = 0; h < s.shape.kv_heads; ++h) {
        attention_follower model({s.limits.sinks, s.limits.window, s.limits.capacity(), accumulates, {0.5, 0.0}});
        for (index_t t = 0; t < s.tokens; ++t) {
          using T = typename S::type;
          std::vector<T> k(S::key_dim);
          std::vector<T> v(S::value_dim);
          kvpop::round_to(in.kv.keys(0, s.tokens).row(b, t, h), k.data(), S::key_dim);
          kvpop::round_to(in.kv.values(0, s.tokens).row(b, t, h), v.data(), S::value_dim);
          std::vector<numbers> queries;
          for (index_t g = h * s.group; g < (h + 1) * s.group; ++g) {
            queries.push_back(as_numbers(in.q.keys(0, s.tokens).row(b, t, g), S::key_dim));
          }
          const index_t gone = got.evicted_of(s, 0, s.tokens)(b, t, h).position;
          evictions += gone >= 0 ? 1 : 0;
          std::vector<attended_row> rows;
          const double rounding = 2e-5 * (accumulates ? static_cast<double>(t + 1) : 1.0);
          REQUIRE(model.step(as_numbers(k.data(), S::key_dim), as_numbers(v.data(), S::value_dim), queries, gone,
                             rounding, rows) == "");
          for (index_t g = 0; g < s.group; ++g) {
            const attended_row& wanted = rows[static_cast<std::size_t>(g)];
            const index_t head = h * s.group + g;
            REQUIRE(static_cast<double>(got.lse_of(s, 0, s.tokens)(b, t, head)) ==
                    doctest::Approx(wanted.lse).epsilon(tolerance<float>));
            for (index_t d = 0; d < S::value_dim; ++d) {
              const double out = static_cast<double>(got.out_of(s, 0, s.tokens)(b, t, head, d));
              REQUIRE(std::fabs(out - wanted.out[static_cast<std::size_t>(d)]) < 5 * tolerance<float>);
            }
          }
        }
        const auto head = cache.ref().head(b, h);
        REQUIRE(static_cast<std::size_t>(*head.held) == model.held());
        for (index_t slot = 0; slot < *head.held; ++slot) {
          const double wanted = model.priority(head.positions[slot]);
          REQUIRE(std::fabs(head.priorities[slot] - wanted) < 2e-5 * static_cast<double>(s.tokens + 1));
        }
      }
    }
  }
  REQUIRE(evictions > count / 2);
}

}  // namespace

TEST_CASE("TOVA by prefill drops what the plain simulation drops") {
  check_follower<setting<float, 5, 3, float>>(65, 700, kvpop::tova{}, false,
                                              [](generator& r) { return kvpop::tova_budget(r.integer(2, 23)); });
  check_follower<setting<bfloat16, 16, 8, float>>(66, 350, kvpop::tova{}, false,
                                                  [](generator& r) { return kvpop::tova_budget(r.integer(2, 23)); });
}

TEST_CASE("H2O by prefill drops what the plain simulation drops") {
  const auto budget = [](generator& r) { return kvpop::h2o_budget(r.integer(4, 23), r.integer(0, 2)); };
  check_follower<setting<float, 5, 3, float>>(67, 700, kvpop::h2o{}, true, budget);
  check_follower<setting<bfloat16, 16, 8, float>>(68, 350, kvpop::h2o{}, true, budget);
}

TEST_CASE("the workspace grows with budget + chunk, whatever was seen, and exactly that is enough") {
  using block = cache_block<float, 16, 8>;
  const auto bytes = [](index_t rows, index_t heads, const kvpop::budget& limits, index_t tokens, int threads) {
    const block cache({.sequences = rows, .kv_heads = heads}, limits);
    struct pool {
      void operator()(index_t, const kvpop::host_context::indexed_task&) {}
    } none;
    return static_cast<index_t>(
        kvpop::prefill_workspace<kvpop::recency>(kvpop::host_context(none, threads), cache.ref(), tokens, 2 * heads));
  };
  const kvpop::budget small{.sinks = 4, .window = 60, .topk = 64};
  const kvpop::budget large{.sinks = 4, .window = 60, .topk = 64 + 1024};
  // A token: its key and value as stored, its death and place a head, and its position.
  const index_t token = 3 * ((16 + 8) * 4 + 8 + 4) + 8;
  CHECK(bytes(1, 3, small, 2048, 1) - bytes(1, 3, small, 1024, 1) == 1024 * token);
  CHECK(bytes(1, 3, small, 65536, 1) - bytes(1, 3, small, 1024, 1) == (65536 - 1024) * token);
  // A slot: its position and death a head.
  CHECK(bytes(1, 3, large, 1024, 1) - bytes(1, 3, small, 1024, 1) == 1024 * 3 * 16);
  CHECK(bytes(2, 3, small, 1024, 1) - bytes(1, 3, small, 1024, 1) <= 1024 * token + 128 * 3 * 16 + 1024);
  // A thread: a constant.
  const index_t thread = bytes(1, 3, small, 1024, 2) - bytes(1, 3, small, 1024, 1);
  CHECK(std::abs(bytes(1, 3, large, 4096, 5) - bytes(1, 3, large, 4096, 4) - thread) <= 64);
  CHECK(thread < 1 << 20);
}

namespace {

struct spoilt {
  using S = setting<float, 3, 5, float>;
  static constexpr kvpop::cache_shape shape{.sequences = 2, .kv_heads = 3, .memory = 9};
  static constexpr kvpop::budget limits{.sinks = 1, .window = 4, .topk = 2};
  generator random{69};
  S::block cache{shape, limits};
  token_stream<float> kv{random, 2, 20, 3, 3, 5};
  token_stream<float> queries{random, 2, 20, 6, 3, 1};
  std::vector<float> results = std::vector<float>(2 * 4 * 6 * 5, 7.0F);
  std::vector<std::byte> scratch = std::vector<std::byte>(1 << 20);
  kvpop::chunk_view<const float> q = queries.keys(0, 4);
  kvpop::chunk_view<const float> k = kv.keys(0, 4);
  kvpop::chunk_view<const float> v = kv.values(0, 4);
  kvpop::chunk_view<float> out{results.data(), {2, 4, 6, 5}};
  kvpop::prefill_params params;
  kvpop::workspace memory{scratch.data(), scratch.size()};

  spoilt() { kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, kv.keys(0, 20), kv.values(0, 20)); }

  template <class Scorer = echo_scorer>
  std::string refused(const Scorer& scorer = {}) {
    const std::vector<std::byte> before = cache.snapshot();
    const std::string message =
        message_of([&] { kvpop::prefill(kvpop::host_context(), cache.ref(), scorer, q, k, v, out, params, memory); });
    CHECK(before == cache.snapshot());
    CHECK(results == std::vector<float>(2 * 4 * 6 * 5, 7.0F));
    return message;
  }
};

}  // namespace

TEST_CASE_FIXTURE(spoilt, "bad arguments of prefill: good ones are taken") {
  kvpop::prefill(kvpop::host_context(), cache.ref(), echo_scorer{}, q, k, v, out, params, memory);
  CHECK(cache.ref().seen(1) == 24);
}

TEST_CASE_FIXTURE(spoilt, "bad arguments of prefill: extents and strides") {
  const auto restore_q = q;
  q = {q.data(), {2, 4, 5, 3}};
  CHECK(refused() == "kvpop: prefill: q.extent(head) is 5; it must be a positive multiple of the cache's 3 KV heads");
  q = {q.data(), {2, 4, 0, 3}};
  CHECK(refused() == "kvpop: prefill: q.extent(head) is 0; it must be a positive multiple of the cache's 3 KV heads");
  q = {q.data(), {2, 3, 6, 3}};
  CHECK(refused() == "kvpop: prefill: q.extent(token) is 3; expected 4");
  q = {q.data(), {1, 4, 6, 3}};
  CHECK(refused() == "kvpop: prefill: q.extent(sequence) is 1; expected 2");
  q = {q.data(), {2, 4, 6, 4}};
  CHECK(refused() == "kvpop: prefill: q.extent(dim) is 4; expected 3");
  q = {nullptr, {2, 4, 6, 3}};
  CHECK(refused() == "kvpop: prefill: q has no data");
  q = restore_q;
  const auto restore_k = k;
  k = {k.data(), {2, 4, 3, 3}, {1, 1, 1, 2}};
  CHECK(refused() == "kvpop: prefill: k.stride(dim) is 2; it must be 1");
  k = {k.data(), {2, 4, 2, 3}};
  CHECK(refused() == "kvpop: prefill: k.extent(head) is 2; expected 3");
  k = restore_k;
  v = {v.data(), {2, 5, 3, 5}};
  CHECK(refused() == "kvpop: prefill: v.extent(token) is 5; expected 4");
  v = kv.values(0, 4);
  out = {results.data(), {2, 4, 3, 5}};
  CHECK(refused() == "kvpop: prefill: out.extent(head) is 3; expected 6");
  out = {results.data(), {2, 4, 6, 3}};
  CHECK(refused() == "kvpop: prefill: out.extent(dim) is 3; expected 5");
  out = {nullptr, {2, 4, 6, 5}};
  CHECK(refused() == "kvpop: prefill: out has no data");
}

TEST_CASE_FIXTURE(spoilt, "bad arguments of prefill: options") {
  const std::vector<index_t> counts = {1, 9};
  params.counts = counts;
  CHECK(refused() == "kvpop: prefill: counts[1] is 9; it must be at least 0 and at most the chunk's 4 tokens");
  params.counts = {};
  kvpop::eviction gone;
  params.evicted = {&gone, {2, 4, 4}};
  CHECK(refused() == "kvpop: prefill: evicted.extent(head) is 4; expected 3");
  params.evicted = {};
  float lse = 0;
  params.lse = {&lse, {2, 4, 3}};
  CHECK(refused() == "kvpop: prefill: lse.extent(head) is 3; expected 6");
  params.lse = {};
  params.attention.scale = std::numeric_limits<float>::quiet_NaN();
  CHECK(refused().find("attention_params.scale is") != std::string::npos);
  params.attention = {};
  params.attention.sliding_window = -1;
  CHECK(refused() == "kvpop: attention_params.sliding_window is -1; it must be at least 0 (0 = no limit)");
}

TEST_CASE_FIXTURE(spoilt, "bad arguments of prefill: scorers and workspaces") {
  CHECK(refused(echo_scorer{.lag = 5}) ==
        "kvpop: prefill: scorer.delay is 5; it must be at least 0 and at most budget.window = 4");
  CHECK(refused(kvpop::snapkv(2, 3)).find("kvpop: prefill: scorer.memory_size is ") == 0);
  CHECK(refused(kvpop::snapkv(2, 5)) == "kvpop: prefill: scorer.key_dim is 5; the cache has 3");
  const kvpop::host_context here;
  for (const auto& wanted : {kvpop::prefill_workspace<echo_scorer>(here, cache.ref(), 4, 6)}) {
    memory.bytes = wanted - 64;  // what an aligned workspace needs, less one
    CHECK(refused().find("kvpop: prefill: workspace.bytes is " + std::to_string(wanted - 64) + "; at least ") == 0);
    memory = {};
    CHECK(refused().find("kvpop: prefill: workspace.bytes is 0; at least ") == 0);
    CHECK(refused(kvpop::tova{}).find("kvpop: prefill: workspace.bytes is 0; at least ") == 0);
  }
  CHECK(message_of([&] { static_cast<void>(kvpop::prefill_workspace<echo_scorer>(here, cache.ref(), -1, 6)); }) ==
        "kvpop: prefill: tokens is -1; it must be at least 0");
  CHECK(message_of([&] { static_cast<void>(kvpop::prefill_workspace<echo_scorer>(here, cache.ref(), 4, 7)); }) ==
        "kvpop: prefill: q.extent(head) is 7; it must be a positive multiple of the cache's 3 KV heads");
  CHECK(message_of([&] {
          static_cast<void>(kvpop::prefill_workspace<echo_scorer>(here, cache.ref(), index_t{1} << 60, 6));
        }).find("does not fit 63 bits") != std::string::npos);
}

TEST_CASE_FIXTURE(spoilt, "a prompt that is longer than the slots that hold it whole is refused") {
  const kvpop::snapkv scorer(2, 3);
  const S::block whole({.sequences = 2, .kv_heads = 3, .memory = scorer.memory_size(), .prompt = 11}, limits);
  kvpop::prefill(kvpop::host_context(), whole.ref(), scorer, q, k, v, out, params, memory);
  kvpop::prefill(kvpop::host_context(), whole.ref(), scorer, q, k, v, out, params, memory);
  CHECK(whole.ref().held(0, 0) == 8);
  const std::vector<std::byte> before = whole.snapshot();
  CHECK(message_of([&] { kvpop::prefill(kvpop::host_context(), whole.ref(), scorer, q, k, v, out, params, memory); }) ==
        "kvpop: prefill: sequence 0 would hold 12 tokens of its prompt; cache_shape.prompt is 11");
  CHECK(before == whole.snapshot());
  const kvpop::snapkv other(1, 3);
  CHECK(message_of([&] { kvpop::prefill(kvpop::host_context(), whole.ref(), other, q, k, v, out, params, memory); }) ==
        "kvpop: prefill: scorer.group is 1; q has 2 query heads a KV head");
  CHECK(before == whole.snapshot());
}

TEST_CASE_FIXTURE(spoilt, "a chunk of no tokens changes nothing") {
  const std::vector<std::byte> before = cache.snapshot();
  index_t visited = -1;
  params.visited_tiles = &visited;
  const kvpop::chunk_view<const float> none(nullptr, {2, 0, 3, 3});
  const kvpop::chunk_view<const float> no_values(nullptr, {2, 0, 3, 5});
  const kvpop::chunk_view<const float> no_queries(nullptr, {2, 0, 6, 3});
  const kvpop::chunk_view<float> no_out(nullptr, {2, 0, 6, 5});
  kvpop::prefill(kvpop::host_context(), cache.ref(), echo_scorer{}, no_queries, none, no_values, no_out, params,
                 memory);
  CHECK(visited == 0);
  kvpop::prefill(kvpop::host_context(), cache.ref(), kvpop::tova{}, no_queries, none, no_values, no_out, params,
                 memory);
  const std::vector<index_t> counts = {0, 0};
  params.counts = counts;
  kvpop::prefill(kvpop::host_context(), cache.ref(), echo_scorer{}, q, k, v, out, params, memory);
  CHECK(visited == 0);
  CHECK(before == cache.snapshot());
}
