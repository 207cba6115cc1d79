#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kvpop/cache/append.hpp"
#include "kvpop/cache/cache.hpp"
#include "kvpop/score/recency.hpp"
#include "support/any_scorer.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"
#include "support/token_stream.hpp"

// Where append's inputs come from, and the corners of its budget.

using namespace kvpop_test;

namespace {

using kvpop::bfloat16;
using kvpop::float16;
constexpr kvpop::host_context here;

template <class T, index_t KeyDim, index_t ValueDim>
std::vector<index_t> held_positions(const kvpop::budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence,
                                    index_t h) {
  const auto head = cache.head(sequence, h);
  std::vector<index_t> held(head.positions, head.positions + *head.held);
  std::sort(held.begin(), held.end());
  return held;
}

// Runs recency over `tokens` tokens of one head and returns the positions held.
std::vector<index_t> held_after(const kvpop::budget& limits, index_t tokens) {
  generator random(20);
  const cache_block<float, 1, 1> cache({}, limits);
  const token_stream<float> stream(random, 1, tokens, 1, 1, 1);
  kvpop::append(here, cache.ref(), kvpop::recency{}, stream.keys(0, tokens), stream.values(0, tokens));
  return held_positions(cache.ref(), 0, 0);
}

}  // namespace

TEST_CASE("corners of the budget") {
  using positions = std::vector<index_t>;
  CHECK(held_after({.sinks = 0, .window = 1, .topk = 0}, 9) == positions{8});  // one slot
  CHECK(held_after({.sinks = 0, .window = 1, .topk = 1}, 9) == positions{7, 8});
  CHECK(held_after({.sinks = 2, .window = 1, .topk = 0}, 9) == positions{0, 1, 8});
  CHECK(held_after({.sinks = 1, .window = 3, .topk = 2}, 9) == positions{0, 4, 5, 6, 7, 8});
  CHECK(held_after({.sinks = 7, .window = 3, .topk = 2}, 5) == positions{0, 1, 2, 3, 4});   // sinks > sequence
  CHECK(held_after({.sinks = 1, .window = 64, .topk = 0}, 5) == positions{0, 1, 2, 3, 4});  // window > sequence
  CHECK(held_after({.sinks = 1, .window = 2, .topk = 2}, 5) == positions{0, 1, 2, 3, 4});   // exactly full
  CHECK(held_after({.sinks = 1, .window = 2, .topk = 2}, 6) == positions{0, 2, 3, 4, 5});
  CHECK(held_after({.sinks = 4, .window = 2, .topk = 0}, 5) == positions{0, 1, 2, 3, 4});  // sinks and window overlap
  CHECK(held_after({}, 0).empty());
}

TEST_CASE("no tokens, or none for any sequence, changes nothing and needs no data") {
  generator random(21);
  const cache_block<float, 3, 5> cache({.sequences = 2, .kv_heads = 3}, {.sinks = 1, .window = 2, .topk = 1});
  const token_stream<float> stream(random, 2, 7, 3, 3, 5);
  kvpop::append(here, cache.ref(), echo_scorer{}, stream.keys(0, 7), stream.values(0, 7));
  const std::vector<std::byte> before = cache.snapshot();

  const kvpop::chunk_view<const float> no_keys(nullptr, {2, 0, 3, 3});
  const kvpop::chunk_view<const float> no_values(nullptr, {2, 0, 3, 5});
  kvpop::append(here, cache.ref(), echo_scorer{}, no_keys, no_values);
  CHECK(before == cache.snapshot());

  const std::vector<index_t> none = {0, 0};
  std::vector<kvpop::eviction> evicted(2 * 7 * 3, {-5, -6});
  kvpop::append_params params{.counts = none, .evicted = {}};
  params.evicted = {evicted.data(), {2, 7, 3}};
  kvpop::append(here, cache.ref(), echo_scorer{}, stream.keys(0, 7), stream.values(0, 7), params);
  CHECK(before == cache.snapshot());
  CHECK(std::all_of(evicted.begin(), evicted.end(), [](const auto& e) { return e == kvpop::eviction{-5, -6}; }));
}

TEST_CASE("a fused QKV projection is read in place") {
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(22'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const index_t rows = random.integer(1, 3);
    const index_t heads = random.integer(1, 3);
    const index_t query_heads = heads * random.integer(1, 3);
    const index_t tokens = random.integer(0, 23);
    const kvpop::budget limits{
        .sinks = random.integer(0, 2), .window = random.integer(1, 3), .topk = random.integer(0, 5)};
    // One row of the projection: [query_heads * 3 | heads * 3 | heads * 5 | padding]
    const index_t width = query_heads * 3 + heads * 8 + random.integer(0, 3);
    std::vector<float16> fused(static_cast<std::size_t>(rows * tokens * width + width));
    for (float16& x : fused) {
      x = float16(random.normal());
    }
    const float16* first_key = fused.data() + query_heads * 3;
    const float16* first_value = first_key + heads * 3;
    using view = kvpop::chunk_view<const float16>;
    const view k(first_key, {rows, tokens, heads, 3}, {tokens * width, width, 3, 1});
    const view v(first_value, {rows, tokens, heads, 5}, {tokens * width, width, 5, 1});

    std::vector<float16> dense_k;
    std::vector<float16> dense_v;
    for (index_t r = 0; r < rows * tokens * heads; ++r) {
      const float16* row = fused.data() + r / heads * width + query_heads * 3;
      const index_t h = r % heads;
      dense_k.insert(dense_k.end(), row + h * 3, row + h * 3 + 3);
      dense_v.insert(dense_v.end(), row + heads * 3 + h * 5, row + heads * 3 + h * 5 + 5);
    }
    const cache_block<bfloat16, 3, 5> strided({.sequences = rows, .kv_heads = heads}, limits);
    const cache_block<bfloat16, 3, 5> dense({.sequences = rows, .kv_heads = heads}, limits);
    kvpop::append(here, strided.ref(), echo_scorer{}, k, v);
    kvpop::append(here, dense.ref(), echo_scorer{}, view(dense_k.data(), {rows, tokens, heads, 3}),
                  view(dense_v.data(), {rows, tokens, heads, 5}));
    REQUIRE(strided.snapshot() == dense.snapshot());
  }
}

TEST_CASE("a strided output of evictions is written in place") {
  generator random(23);
  const token_stream<float> stream(random, 1, 5, 2, 1, 1);
  const cache_block<float, 1, 1> cache({.sequences = 1, .kv_heads = 2}, {.sinks = 0, .window = 1, .topk = 1});
  std::vector<kvpop::eviction> out(5 * 2 * 3, {-9, -9});
  kvpop::append_params params;
  params.evicted = {out.data(), {1, 5, 2}, {30, 6, 2}};  // every second entry, rows of six
  kvpop::append(here, cache.ref(), kvpop::recency{}, stream.keys(0, 5), stream.values(0, 5), params);
  for (index_t t = 0; t < 5; ++t) {
    for (index_t i = 0; i < 6; ++i) {
      const kvpop::eviction& e = out[static_cast<std::size_t>(t * 6 + i)];
      const bool ours = i == 0 || i == 2;
      CHECK(e.position == (ours ? (t < 2 ? -1 : t - 2) : -9));
      CHECK(e.slot == (ours ? (t < 2 ? -1 : t % 2) : -9));
    }
  }
}

namespace {

// Appends numbers of type In to a cache of T, and the same numbers rounded to T beforehand.
template <class In, class T>
void check_rounding() {
  for (int i = 0; i < draws(250); ++i) {
    generator random(24'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const index_t tokens = random.integer(1, 11);
    std::vector<In> given(static_cast<std::size_t>(tokens * 2 * 3));
    std::vector<T> rounded(given.size());
    for (std::size_t j = 0; j < given.size(); ++j) {
      given[j] = kvpop::scalar_traits<In>::from_float(random.score());
      rounded[j] = kvpop::scalar_traits<T>::from_float(kvpop::scalar_traits<In>::to_float(given[j]));
    }
    const kvpop::budget limits{.sinks = 1, .window = 2, .topk = 3};
    const cache_block<T, 3, 3> a({.sequences = 1, .kv_heads = 2, .memory = 2}, limits);
    const cache_block<T, 3, 3> b({.sequences = 1, .kv_heads = 2, .memory = 2}, limits);
    const memory_scorer scorer{.lag = 1, .decay = nullptr, .width = 6};
    const kvpop::chunk_view<const In> x(given.data(), {1, tokens, 2, 3});
    const kvpop::chunk_view<const T> y(rounded.data(), {1, tokens, 2, 3});
    kvpop::append(here, a.ref(), scorer, x, x);
    kvpop::append(here, b.ref(), scorer, y, y);
    REQUIRE(a.snapshot() == b.snapshot());
  }
}

}  // namespace

TEST_CASE("inputs of any scalar type are rounded to the cache's, and scored as they are stored") {
  check_rounding<float, bfloat16>();
  check_rounding<float, float16>();
  check_rounding<float16, float>();
  check_rounding<bfloat16, float>();
  check_rounding<bfloat16, float16>();
  check_rounding<float16, bfloat16>();
  check_rounding<bfloat16, bfloat16>();
}

TEST_CASE("keys and values that are not const go the same way, one token or many") {
  generator random(25);
  std::vector<float> k(2 * 2 * 3);
  for (float& x : k) {
    x = random.normal();
  }
  const kvpop::budget limits{.sinks = 1, .window = 2, .topk = 3};
  const cache_block<float, 3, 3> a({.sequences = 1, .kv_heads = 2}, limits);
  const cache_block<float, 3, 3> b({.sequences = 1, .kv_heads = 2}, limits);
  const kvpop::chunk_view<float> chunk(k.data(), {1, 2, 2, 3});
  kvpop::append(here, a.ref(), echo_scorer{}, chunk, chunk);
  for (index_t t = 0; t < 2; ++t) {
    const kvpop::step_view<float> step(k.data() + t * 6, {1, 2, 3});
    kvpop::append(here, b.ref(), echo_scorer{}, step, step);
  }
  CHECK(a.snapshot() == b.snapshot());
}

TEST_CASE("scores that are NaN make it recency") {
  generator random(26);
  const kvpop::budget limits{.sinks = 2, .window = 3, .topk = 5};
  token_stream<float> stream(random, 1, 61, 1, 1, 1);
  for (index_t t = 0; t < 61; ++t) {
    stream.key(0, t, 0, 0) = std::bit_cast<float>(random.pick<std::uint32_t>({0x7fc00000U, 0xffc01234U, 0x7fffffffU}));
  }
  const float decay = -0.5F;
  for (const index_t lag : {index_t{0}, index_t{2}, index_t{3}}) {
    const cache_block<float, 1, 1> scored({}, limits);
    const cache_block<float, 1, 1> recent({}, limits);
    std::vector<kvpop::eviction> gone(61);
    std::vector<kvpop::eviction> oldest(61);
    const auto evicted = [](std::vector<kvpop::eviction>& to) {
      kvpop::append_params params;
      params.evicted = {to.data(), {1, 61, 1}};
      return params;
    };
    kvpop::append(here, scored.ref(), echo_scorer{lag, &decay}, stream.keys(0, 61), stream.values(0, 61),
                  evicted(gone));
    kvpop::append(here, recent.ref(), kvpop::recency{}, stream.keys(0, 61), stream.values(0, 61), evicted(oldest));
    CHECK(gone == oldest);
  }
}

TEST_CASE("a NaN in one token poisons a memory until its sequence is reset, and no other sequence") {
  generator random(27);
  const kvpop::budget limits{.sinks = 1, .window = 2, .topk = 4};
  kvpop::mlstm_parameters p;
  p.dk = 3;
  p.dv = 2;
  std::vector<float> w(2 * 3 * 8);
  for (float& x : w) {
    x = random.normal();
  }
  p.wk = p.wq = p.wv = p.wo = p.wf = p.wi = p.a = p.wout = p.bf = p.bi = p.b = w.data();
  const kvpop::mlstm_ref scorer({2, 3, 5}, p, 2);
  const token_stream<float> clean(random, 2, 40, 2, 3, 5);
  token_stream<float> stream = clean;
  stream.key(0, 9, 1, 2) = std::numeric_limits<float>::quiet_NaN();

  const kvpop::cache_shape shape{.sequences = 2, .kv_heads = 2, .memory = scorer.memory_size()};
  const cache_block<float, 3, 5> cache(shape, limits);
  const cache_block<float, 3, 5> healthy(shape, limits);
  kvpop::append(here, cache.ref(), scorer, stream.keys(0, 40), stream.values(0, 40));
  kvpop::append(here, healthy.ref(), scorer, clean.keys(0, 40), clean.values(0, 40));
  // The poisoned head has become recency once all that was scored before has gone; the other head has not noticed.
  const auto sick = cache.ref().head(0, 1);
  index_t scored_nan = 0;
  for (index_t slot = 0; slot < *sick.held; ++slot) {
    scored_nan += sick.positions[slot] >= 9 && std::isnan(sick.priorities[slot]) ? 1 : 0;
    CHECK((sick.positions[slot] < 9 || std::isnan(sick.priorities[slot])));
  }
  CHECK(scored_nan >= limits.window);
  CHECK(std::isnan(sick.memory[0]));
  CHECK(held_positions(cache.ref(), 0, 0) == held_positions(healthy.ref(), 0, 0));
  CHECK(state_of(cache.ref(), 1) == state_of(healthy.ref(), 1));

  kvpop::reset(cache.ref(), 0);
  const std::vector<index_t> only_first = {40, 0};
  kvpop::append(here, cache.ref(), scorer, clean.keys(0, 40), clean.values(0, 40),
                {.counts = only_first, .evicted = {}});
  CHECK(state_of(cache.ref()) == state_of(healthy.ref()));
}

namespace {

// What the far-position test expects of one head: positions and priorities held, by slot.
struct far_token {
  index_t position;
  double priority;
};

}  // namespace

TEST_CASE("positions far beyond 32 bits") {
  for (const index_t far : {(index_t{1} << 31) - 7, (index_t{1} << 32) + 5, (index_t{1} << 40) - 3}) {
    for (int i = 0; i < draws(400); ++i) {
      generator random(28'000'000 + static_cast<std::uint64_t>(i));
      CAPTURE(far);
      CAPTURE(i);
      const index_t window = random.pick<index_t>({1, 2, 3, 5});
      const kvpop::budget limits{.sinks = random.integer(0, 3), .window = window, .topk = random.integer(0, 6)};
      const float decay = random.chance(0.3) ? 0.0F : -static_cast<float>(random.uniform());
      const echo_scorer scorer{random.pick<index_t>({0, window - 1, window}), &decay};
      // A short run from position 0; then the sequence pretends that all but its sinks happened much later.
      const index_t start = limits.sinks + window + random.integer(0, 9);
      const index_t tokens = start + 30;
      token_stream<float> stream(random, 1, tokens, 1, 1, 1);
      for (index_t t = 0; t < tokens; ++t) {
        stream.key(0, t, 0, 0) = random.score();
      }
      const cache_block<float, 1, 1> cache({}, limits);
      kvpop::append(here, cache.ref(), scorer, stream.keys(0, start), stream.values(0, start));
      const auto head = cache.ref().head(0, 0);
      const index_t shift = far / window * window;  // a multiple of the window: ring entries stay where they are
      std::vector<far_token> model;
      for (index_t slot = 0; slot < *head.held; ++slot) {
        head.positions[slot] += head.positions[slot] < limits.sinks ? 0 : shift;
        model.push_back({head.positions[slot], head.priorities[slot]});
      }
      cache.ref().arrays().seen[0] += shift;

      for (index_t t = start; t < tokens; ++t) {
        const index_t q = shift + t;
        kvpop::append(here, cache.ref(), scorer, stream.keys(t, 1), stream.values(t, 1));
        // The same on the model. Priorities by the definition: one rounding, so std::fma.
        std::size_t at = model.size();
        const auto priority_of = [&](index_t position) {
          return std::fma(-static_cast<double>(position), static_cast<double>(decay),
                          static_cast<double>(stream.key(0, position - shift, 0, 0)));
        };
        if (scorer.lag > 0) {
          for (far_token& token : model) {
            token.priority = token.position == q - scorer.lag ? priority_of(token.position) : token.priority;
          }
        }
        if (static_cast<index_t>(model.size()) == limits.capacity()) {
          at = model.size();
          for (std::size_t j = 0; j < model.size(); ++j) {
            const far_token& token = model[j];
            if (token.position < limits.sinks || token.position > q - window) continue;
            if (at == model.size()) {
              at = j;
              continue;
            }
            const far_token& worst = model[at];
            const bool nan = std::isnan(token.priority);
            const bool worst_nan = std::isnan(worst.priority);
            const bool equal = nan == worst_nan && (nan || token.priority == worst.priority);
            const bool lower = nan != worst_nan ? nan : token.priority < worst.priority;
            at = (equal ? token.position < worst.position : lower) ? j : at;
          }
        } else {
          model.push_back({});
        }
        model[at] = {q, scorer.lag == 0 ? priority_of(q) : std::numeric_limits<double>::quiet_NaN()};
        REQUIRE(cache.ref().seen(0) == q + 1);
        REQUIRE(*head.held == static_cast<index_t>(model.size()));
        for (std::size_t slot = 0; slot < model.size(); ++slot) {
          REQUIRE(head.positions[slot] == model[slot].position);
          const double p = head.priorities[slot];
          REQUIRE((p == model[slot].priority || (std::isnan(p) && std::isnan(model[slot].priority))));
        }
      }
    }
  }
}
