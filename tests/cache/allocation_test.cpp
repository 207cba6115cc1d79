#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "kvpop/attention/prefill.hpp"
#include "kvpop/cache/append.hpp"
#include "kvpop/cache/cache.hpp"
#include "kvpop/cache/end_prompt.hpp"
#include "kvpop/cache/pin.hpp"
#include "kvpop/core/thread_pool.hpp"
#include "kvpop/score/h2o.hpp"
#include "kvpop/score/snapkv.hpp"
#include "kvpop/score/tova.hpp"
#include "support/any_scorer.hpp"
#include "support/cache_block.hpp"
#include "support/counting_new.hpp"  // this file's program counts every operator new
#include "support/generators.hpp"
#include "support/token_stream.hpp"

// No verb allocates, on any kind of context: construction is the only place that does.

using namespace kvpop_test;

namespace {

constexpr index_t key_dim = 17;
constexpr index_t value_dim = 3;
constexpr index_t heads = 3;
constexpr index_t query_heads = 6;
constexpr index_t tokens = 90;
constexpr kvpop::budget limits{.sinks = 1, .window = 32, .topk = 9};
using cache_type = kvpop::budgeted_cache<kvpop::bfloat16, key_dim, value_dim>;

// Everything a run needs, allocated beforehand.
struct stage {
  generator random{100};
  token_stream<float> kv{random, 2, tokens, heads, key_dim, value_dim};
  token_stream<float> q{random, 2, tokens, query_heads, key_dim, 1};
  std::vector<float> out = std::vector<float>(2 * tokens * query_heads * value_dim);
  std::vector<float> weights = std::vector<float>(2 * heads * 200);
  std::vector<float> lse = std::vector<float>(2 * tokens * query_heads);
  std::vector<kvpop::eviction> evicted = std::vector<kvpop::eviction>(2 * tokens * heads);
  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{8} << 20);
  kvpop::thread_pool pool{3};

  [[nodiscard]] kvpop::workspace scratch() { return {memory.data(), memory.size()}; }
};

}  // namespace

TEST_CASE("the counter counts") {
  CHECK(news_of([] { const auto p = std::make_unique<int>(1); }) == 1);
  CHECK(news_of([] { cache_type cache({.sequences = 2, .kv_heads = heads}, limits); }) == 1);
  CHECK(news_of([] { const std::vector<double> x(100); }) == 1);
}

TEST_CASE("append, prefill, pin, unpin, reset, assign and clear do not allocate, with any scorer") {
  stage s;
  for (int i = 0; i < 60; ++i) {
    const any_scorer any(s.random, limits, heads, key_dim, value_dim);
    const kvpop::cache_shape shape{.sequences = 2, .kv_heads = heads, .memory = any.erased().memory_size()};
    cache_type cache(shape, limits);
    cache_type other(shape, limits);
    for (const kvpop::host_context& ctx : {kvpop::host_context(), s.pool.context()}) {
      any.visit([&](const auto& scorer) {
        const long news = news_of([&] {
          const auto ref = cache.ref();
          kvpop::append_params params;
          params.evicted = {s.evicted.data(), {2, 40, heads}};
          kvpop::append(ctx, ref, scorer, s.kv.keys(0, 40), s.kv.values(0, 40), params);
          kvpop::append(ctx, ref, scorer, s.kv.keys(40, 1), s.kv.values(40, 1));
          kvpop::pin(ref, 0, 40);
          kvpop::unpin(ref, 0, 40);
          kvpop::prefill_params options;
          options.lse = {s.lse.data(), {2, 49, query_heads}};
          kvpop::prefill(ctx, ref, scorer, s.q.keys(41, 49), s.kv.keys(41, 49), s.kv.values(41, 49),
                         kvpop::chunk_view<float>(s.out.data(), {2, 49, query_heads, value_dim}), options, s.scratch());
          kvpop::attended(ctx, ref, scorer, kvpop::step_view<const float>(), kvpop::weights_view<const float>());
          kvpop::assign(other.ref(), 1, ref, 0);
          kvpop::reset(ref, 1);
          kvpop::clear(ref);
        });
        CHECK(news == 0);
      });
    }
  }
}

TEST_CASE("attention, its followers, compaction and the end of a prompt do not allocate") {
  stage s;
  const kvpop::snapkv snap(query_heads / heads, key_dim);
  cache_type plain({.sequences = 2, .kv_heads = heads}, limits);
  cache_type whole({.sequences = 2, .kv_heads = heads, .memory = snap.memory_size(), .prompt = tokens}, limits);
  const kvpop::chunk_view<float> out(s.out.data(), {2, tokens, query_heads, value_dim});
  for (const kvpop::host_context& ctx : {kvpop::host_context(), s.pool.context()}) {
    const long news = news_of([&] {
      kvpop::clear(plain.ref());
      kvpop::prefill(ctx, plain.ref(), kvpop::h2o{}, s.q.keys(0, tokens), s.kv.keys(0, tokens), s.kv.values(0, tokens),
                     out, {}, s.scratch());
      kvpop::append(ctx, plain.ref(), kvpop::tova{}, s.kv.keys(0, 1), s.kv.values(0, 1));
      const auto q = s.q.keys(0, 1);
      const kvpop::step_view<const float> step(q.data(), {2, query_heads, key_dim}, {q.strides()[0], key_dim, 1});
      const kvpop::weights_view<float> weights(s.weights.data(), {2, heads, plain.ref().slots()});
      kvpop::decode_attention(ctx, step, plain.ref(),
                              kvpop::step_view<float>(s.out.data(), {2, query_heads, value_dim}), {},
                              {.lse = {}, .weights = weights}, s.scratch());
      kvpop::attended(ctx, plain.ref(), kvpop::tova{}, step, weights);
      kvpop::clear(whole.ref());
      kvpop::prefill(ctx, whole.ref(), snap, s.q.keys(0, tokens), s.kv.keys(0, tokens), s.kv.values(0, tokens), out, {},
                     s.scratch());
      kvpop::end_prompt(ctx, whole.ref(), snap, 0, {}, s.scratch());
      kvpop::compact(ctx, whole.ref(), 1, s.scratch());
    });
    CHECK(news == 0);
  }
}
