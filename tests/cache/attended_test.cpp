#include "kvpop/cache/attended.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kvpop/attention/decode.hpp"
#include "kvpop/cache/append.hpp"
#include "kvpop/core/thread_pool.hpp"
#include "kvpop/score/h2o.hpp"
#include "kvpop/score/mlp.hpp"
#include "kvpop/score/snapkv.hpp"
#include "kvpop/score/tova.hpp"
#include "support/any_scorer.hpp"
#include "support/attention_model.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/token_stream.hpp"

// A whole step of a method that follows attention: append, decode_attention, attended. prefill_test.cpp has the same by
// chunks.

using namespace kvpop_test;

namespace {

using kvpop::weights_view;
constexpr index_t key_dim = 5;
constexpr index_t value_dim = 3;
using block = cache_block<kvpop::bfloat16, key_dim, value_dim>;

template <class In>
kvpop::step_view<const In> first_of(const kvpop::chunk_view<const In>& x) {
  return {x.data(), {x.extents()[0], x.extents()[2], x.extents()[3]}, {x.strides()[0], x.strides()[2], 1}};
}

numbers stored(const float* from, index_t count) {
  std::vector<kvpop::bfloat16> row(static_cast<std::size_t>(count));
  kvpop::round_to(from, row.data(), count);
  return as_numbers(row.data(), count);
}

// Steps of random caches against the plain simulation in double.
template <class Scorer>
void check_steps(std::uint64_t stream, const Scorer& scorer, bool accumulates, auto&& draw_budget) {
  kvpop::thread_pool pool(3);
  index_t evictions = 0;
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(stream * 1'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const index_t rows = random.integer(1, 2);
    const index_t heads = random.integer(1, 2);
    const index_t group = random.integer(1, 3);
    const kvpop::budget limits = draw_budget(random);
    const index_t tokens = random.integer(1, limits.capacity() + 25);
    const token_stream<float> kv(random, rows, tokens, heads, key_dim, value_dim);
    const token_stream<float> queries(random, rows, tokens, heads * group, key_dim, 1);
    const block cache({.sequences = rows, .kv_heads = heads}, limits);
    std::vector<attention_follower> models(
        static_cast<std::size_t>(rows * heads),
        attention_follower({limits.sinks, limits.window, limits.capacity(), accumulates, {0.7, 0.0}}));
    std::vector<kvpop::eviction> evicted(static_cast<std::size_t>(rows * heads));
    std::vector<float> out(static_cast<std::size_t>(rows * heads * group * value_dim));
    std::vector<float> weights(static_cast<std::size_t>(rows * heads * cache.ref().slots()));
    const kvpop::host_context ctx = random.chance(0.5) ? pool.context() : kvpop::host_context();
    for (index_t t = 0; t < tokens; ++t) {
      const auto q = first_of(queries.keys(t, 1));
      kvpop::append_params params;
      params.evicted = {evicted.data(), {rows, 1, heads}};
      kvpop::append(ctx, cache.ref(), scorer, kv.keys(t, 1), kv.values(t, 1), params);
      const weights_view<float> w(weights.data(), {rows, heads, cache.ref().slots()});
      kvpop::decode_attention(ctx, q, cache.ref(),
                              kvpop::step_view<float>(out.data(), {rows, heads * group, value_dim}), {.scale = 0.7F},
                              {.lse = {}, .weights = w});
      kvpop::attended(ctx, cache.ref(), scorer, q, w);
      const double rounding = 2e-5 * (accumulates ? static_cast<double>(t + 1) : 1.0);
      for (index_t r = 0; r < rows * heads; ++r) {
        std::vector<numbers> group_queries;
        for (index_t g = 0; g < group; ++g) {
          group_queries.push_back(as_numbers(q.row(r / heads, r % heads * group + g), key_dim));
        }
        attention_follower& model = models[static_cast<std::size_t>(r)];
        const index_t gone = evicted[static_cast<std::size_t>(r)].position;
        evictions += gone >= 0 ? 1 : 0;
        std::vector<attended_row> ignored;
        REQUIRE(model.step(stored(kv.keys(t, 1).row(r / heads, 0, r % heads), key_dim),
                           stored(kv.values(t, 1).row(r / heads, 0, r % heads), value_dim), group_queries, gone,
                           rounding, ignored) == "");
        const auto head = cache.ref().head(r / heads, r % heads);
        REQUIRE(static_cast<std::size_t>(*head.held) == model.held());
        for (index_t slot = 0; slot < *head.held; ++slot) {
          REQUIRE(std::fabs(head.priorities[slot] - model.priority(head.positions[slot])) < rounding);
        }
      }
    }
  }
  CHECK(evictions > draws(1'000));
}

}  // namespace

TEST_CASE("TOVA: the weights just seen decide, and the newest of that attention is safe") {
  check_steps(80, kvpop::tova{}, false, [](generator& r) { return kvpop::tova_budget(r.integer(2, 19)); });
}

TEST_CASE("H2O: the sum of all weights decides, sinks and the newest half are safe") {
  check_steps(81, kvpop::h2o{}, true,
              [](generator& r) { return kvpop::h2o_budget(r.integer(4, 19), r.integer(0, 2)); });
}

TEST_CASE("priorities of the other slots, and of sequences without a token, stay as they are") {
  generator random(82);
  const kvpop::budget limits{.sinks = 0, .window = 2, .topk = 5};
  const block cache({.sequences = 2, .kv_heads = 2}, limits);
  const token_stream<float> kv(random, 2, 3, 2, key_dim, value_dim);
  for (index_t t = 0; t < 3; ++t) {
    kvpop::append(kvpop::host_context(), cache.ref(), kvpop::h2o{}, kv.keys(t, 1), kv.values(t, 1));
  }
  std::vector<float> weights(2 * 2 * 7, 0.25F);
  for (index_t slot = 0; slot < 7; ++slot) {
    weights[static_cast<std::size_t>(slot)] = static_cast<float>(slot);
  }
  const weights_view<const float> w(weights.data(), {2, 2, 7});
  const std::vector<std::byte> other = state_of(cache.ref(), 1);
  const std::vector<index_t> counts = {1, 0};
  const kvpop::step_view<const float> no_queries;
  kvpop::attended(kvpop::host_context(), cache.ref(), kvpop::h2o{}, no_queries, w, counts);
  CHECK(other == state_of(cache.ref(), 1));
  kvpop::attended(kvpop::host_context(), cache.ref(), kvpop::h2o{}, no_queries, w, counts);
  for (index_t slot = 0; slot < 7; ++slot) {
    const double priority = cache.ref().head(0, 0).priorities[slot];
    CHECK((slot < 3 ? priority == 2.0 * static_cast<double>(slot) : std::isnan(priority)));
  }
  CHECK(cache.ref().head(0, 1).priorities[2] == 0.5);
}

TEST_CASE("a sequence that has seen nothing is left alone") {
  const block cache({.sequences = 1, .kv_heads = 2}, {.sinks = 0, .window = 2, .topk = 5});
  const std::vector<std::byte> before = cache.snapshot();
  const std::vector<float> weights(2 * 7, 1.0F);
  kvpop::attended(kvpop::host_context(), cache.ref(), kvpop::tova{}, kvpop::step_view<const float>(),
                  weights_view<const float>(weights.data(), {1, 2, 7}));
  CHECK(before == cache.snapshot());
}

TEST_CASE("for a scorer that gives scores it does nothing and asks for nothing") {
  for (int i = 0; i < draws(200); ++i) {
    generator random(83'000'000 + static_cast<std::uint64_t>(i));
    const kvpop::budget limits{.sinks = 1, .window = 2, .topk = 5};
    const any_scorer any(random, limits, 2, key_dim, value_dim);
    const token_stream<float> kv(random, 1, 20, 2, key_dim, value_dim);
    const block cache({.sequences = 1, .kv_heads = 2, .memory = any.erased().memory_size()}, limits);
    any.visit([&](const auto& scorer) {
      kvpop::append(kvpop::host_context(), cache.ref(), scorer, kv.keys(0, 20), kv.values(0, 20));
      const std::vector<std::byte> before = cache.snapshot();
      kvpop::attended(kvpop::host_context(), cache.ref(), scorer, kvpop::step_view<const float>(),
                      weights_view<const float>());
      REQUIRE(before == cache.snapshot());
    });
  }
}

TEST_CASE("SnapKV is handed the queries of the newest token, of any scalar type and stride, to the last that fits") {
  generator random(84);
  const kvpop::snapkv scorer(3, key_dim);
  const block cache({.sequences = 2, .kv_heads = 2, .memory = scorer.memory_size(), .prompt = 40},
                    {.sinks = 1, .window = 32, .topk = 5});
  const token_stream<float> kv(random, 2, 40, 2, key_dim, value_dim);
  const token_stream<kvpop::float16> queries(random, 2, 40, 6, key_dim, 1);
  for (index_t t = 0; t < 40; ++t) {
    kvpop::append(kvpop::host_context(), cache.ref(), scorer, kv.keys(t, 1), kv.values(t, 1));
    kvpop::attended(kvpop::host_context(), cache.ref(), scorer, first_of(queries.keys(t, 1)),
                    weights_view<const float>());
  }
  for (index_t b = 0; b < 2; ++b) {
    for (index_t h = 0; h < 2; ++h) {
      const float* memory = cache.ref().head(b, h).memory;
      for (index_t place = 0; place < 32; ++place) {
        const index_t position = scorer.position(memory, place);
        REQUIRE(position >= 8);
        REQUIRE(position % 32 == place);
        for (index_t g = 0; g < 3; ++g) {
          for (index_t d = 0; d < key_dim; ++d) {
            REQUIRE(scorer.queries(memory, place)[g * key_dim + d] ==
                    static_cast<float>(queries.keys(0, 40)(b, position, h * 3 + g, d)));
          }
        }
      }
    }
  }
}

TEST_CASE("what does not fit is an error that says what, and changes not one byte") {
  generator random(85);
  const kvpop::snapkv snap(2, key_dim);
  const block cache({.sequences = 2, .kv_heads = 3, .memory = snap.memory_size(), .prompt = 50},
                    {.sinks = 1, .window = 4, .topk = 2});
  const token_stream<float> kv(random, 2, 9, 3, key_dim, value_dim);
  kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, kv.keys(0, 9), kv.values(0, 9));
  const std::vector<std::byte> before = cache.snapshot();
  const std::vector<float> data(2 * 3 * 50);
  const weights_view<const float> w(data.data(), {2, 3, 50});
  using queries = kvpop::step_view<const float>;
  const queries q(data.data(), {2, 6, key_dim});
  const auto refused = [&](const auto& scorer, const queries& qs, const weights_view<const float>& ws,
                           const std::vector<index_t>& counts = {}) {
    const std::string message =
        message_of([&] { kvpop::attended(kvpop::host_context(), cache.ref(), scorer, qs, ws, counts); });
    CHECK(before == cache.snapshot());
    return message;
  };
  const std::string weights = "kvpop: attended: weights";
  CHECK(refused(kvpop::tova{}, q, {}) == weights + ".extent(sequence) is 0; expected 2");
  CHECK(refused(kvpop::tova{}, q, {data.data(), {2, 3, 7}}) == weights + ".extent(slot) is 7; expected 50");
  CHECK(refused(kvpop::h2o{}, q, {data.data(), {2, 2, 50}}) == weights + ".extent(head) is 2; expected 3");
  CHECK(refused(kvpop::h2o{}, q, {data.data(), {2, 3, 50}, {1, 1, 2}}) == weights + ".stride(slot) is 2; it must be 1");
  CHECK(refused(kvpop::h2o{}, q, {nullptr, {2, 3, 50}}) == weights + " has no data");
  CHECK(refused(kvpop::tova{}, q, w, {1}) == "kvpop: attended: counts has 1 entries; the cache has 2 sequences");
  CHECK(refused(kvpop::tova{}, q, w, {0, 2}) ==
        "kvpop: attended: counts[1] is 2; it must be at least 0 and at most the chunk's 1 tokens");
  CHECK(refused(snap, {}, {}) ==
        "kvpop: attended: q.extent(head) is 0; it must be a positive multiple of the cache's 3 KV heads");
  CHECK(refused(snap, {data.data(), {2, 7, key_dim}}, {}) ==
        "kvpop: attended: q.extent(head) is 7; it must be a positive multiple of the cache's 3 KV heads");
  CHECK(refused(snap, {data.data(), {2, 9, key_dim}}, {}) ==
        "kvpop: attended: scorer.group is 2; q has 3 query heads a KV head");
  CHECK(refused(snap, {data.data(), {1, 6, key_dim}}, {}) == "kvpop: attended: q.extent(sequence) is 1; expected 2");
  CHECK(refused(snap, {data.data(), {2, 6, 3}}, {}) == "kvpop: attended: q.extent(dim) is 3; expected 5");
  CHECK(refused(kvpop::snapkv(2, 3), q, {}) == "kvpop: attended: scorer.key_dim is 3; the cache has 5");
}
