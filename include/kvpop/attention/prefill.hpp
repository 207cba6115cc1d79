#pragma once

#include <algorithm>
#include <atomic>
#include <span>

#include "kvpop/attention/decode.hpp"        // decode_attention, for scorers that follow its weights
#include "kvpop/attention/params.hpp"        // attention_params
#include "kvpop/attention/prefill_head.hpp"  // prefill_head, the kernel
#include "kvpop/cache/append.hpp"            // append
#include "kvpop/cache/attended.hpp"          // attended, note_queries
#include "kvpop/cache/chunk.hpp"             // staged_chunk

KVPOP_NAMESPACE_BEGIN

/// Optional arguments of `prefill`.
struct prefill_params {
  attention_params attention = {};
  /// How many of the chunk's tokens belong to each sequence, [sequences]; empty: all of them.
  std::span<const index_t> counts = {};
  /// What each token evicted, [sequences, tokens, kv_heads]; empty: not wanted.
  eviction_view evicted = {};
  /// Log-sum-exp of each query's logits (natural log), [sequences, tokens, query_heads]; empty: not wanted.
  view<float, host_memory, axis::sequence, axis::token, axis::head> lse = {};
  /// Receives the number of (query tile, key tile) pairs that were not skipped; null: not wanted. Scorers that follow
  /// attention weights go token by token and leave it at 0.
  index_t* visited_tiles = nullptr;
};

namespace prefill_verb {

/// Scratch of one call: the staged chunk, and what each worker needs to attend.
template <class T, index_t KeyDim, index_t ValueDim>
struct scratch {
  staged_chunk<T> chunk;
  std::byte* workers = nullptr;  // [threads, bytes]
  std::size_t bytes = 0;

  static scratch carve(carver& memory, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t tokens,
                       index_t group, int threads) {
    scratch s;
    s.chunk = staged_chunk<T>::carve(memory, cache, tokens);
    carver one;
    static_cast<void>(prefill_scratch<KeyDim, ValueDim>::carve(one, group));
    s.bytes = one.bytes();
    s.workers = memory.take<std::byte>(checked_multiply(static_cast<index_t>(s.bytes), threads, "prefill"));
    return s;
  }
};

/// Scratch of the token-by-token form: the weights of the newest queries, and who has a token in this step.
struct step_scratch {
  float* weights = nullptr;   // [sequences, kv_heads, slots]
  index_t* counts = nullptr;  // [sequences]
  std::byte* decode = nullptr;
  std::size_t bytes = 0;

  template <class Cache>
  static step_scratch carve(carver& memory, const Cache& cache, index_t query_heads) {
    step_scratch s;
    s.weights = memory.take<float>(checked_multiply(cache.sequences() * cache.kv_heads(), cache.slots(), "prefill"));
    s.counts = memory.take<index_t>(cache.sequences());
    s.bytes = decode_workspace(cache, query_heads);
    s.decode = memory.take<std::byte>(static_cast<index_t>(s.bytes));
    return s;
  }
};

/// One call's arguments, checked.
template <class Q, class In, class T, index_t KeyDim, index_t ValueDim, class Out>
struct job {
  budgeted_cache_ref<T, KeyDim, ValueDim> cache;
  chunk_view<Q> q;      // [sequences, tokens, query_heads, key_dim]
  chunk_view<In> k;     // [sequences, tokens, kv_heads, key_dim]
  chunk_view<In> v;     // [sequences, tokens, kv_heads, value_dim]
  chunk_view<Out> out;  // [sequences, tokens, query_heads, value_dim]
  prefill_params params;
  index_t tokens;
  index_t group;

  [[nodiscard]] index_t heads() const noexcept { return cache.kv_heads(); }
  [[nodiscard]] index_t rows() const noexcept { return cache.sequences() * heads(); }
  [[nodiscard]] index_t count(index_t sequence) const noexcept { return count_of(params.counts, sequence, tokens); }

  /// Calls f(sequence, head) for all, in parallel.
  template <class F>
  void for_heads(const host_context& ctx, const F& f) const {
    ctx.parallel_for(rows(), [&](index_t row) noexcept { f(row / heads(), row % heads()); });
  }

  /// The queries of one tile, the first of them token `begin`, and where their results go.
  [[nodiscard]] prefill_rows<std::remove_const_t<Q>, Out> rows_of(index_t sequence, index_t h, index_t begin,
                                                                  index_t n) const noexcept {
    const auto part = [&](const auto& x, index_t dim) {
      using element = typename std::remove_cvref_t<decltype(x)>::element_type;
      return view<element, host_memory, axis::token, axis::head, axis::dim>(
          x.row(sequence, begin, h * group), {n, group, dim}, {x.strides()[1], x.strides()[2], 1});
    };
    prefill_rows<std::remove_const_t<Q>, Out> r{part(q, KeyDim), part(out, ValueDim), {}, cache.seen(sequence) + begin};
    if (params.lse.data() != nullptr) {
      r.lse = {&params.lse(sequence, begin, h * group), {n, group}, {params.lse.strides()[1], params.lse.strides()[2]}};
    }
    return r;
  }

  /// Attention of one query tile over what was held when the chunk came, and the chunk.
  index_t attend(const staged_chunk<T>& chunk, index_t sequence, index_t h, index_t begin,
                 const prefill_scratch<KeyDim, ValueDim>& own) const noexcept {
    const index_t n = std::min(prefill_query_tile, count(sequence) - begin);
    const staged_head<T> part = staged(chunk, cache, sequence, h);
    const head_state<T> head = cache.head(sequence, h);
    const key_segment<T> segments[2] = {
        {head.keys, head.values, part.held_positions, part.held_deaths, *part.held},
        {part.keys, part.values, part.positions, part.deaths, begin + n}};  // nothing later is visible to this tile
    return prefill_head<T, KeyDim, ValueDim>(segments, 2, rows_of(sequence, h, begin, n), params.attention, own);
  }

  /// All query tiles of all heads, handed out as workers become free. Returns the tiles visited.
  index_t attend_all(const host_context& ctx, const scratch<T, KeyDim, ValueDim>& s) const {
    const index_t tiles = (tokens + prefill_query_tile - 1) / prefill_query_tile;
    const index_t workers = std::min<index_t>(ctx.threads(), rows() * tiles);
    std::atomic<index_t> next{0};
    std::atomic<index_t> visited{0};
    ctx.parallel_for(workers, [&](index_t worker) noexcept {
      carver memory({s.workers + static_cast<std::size_t>(worker) * s.bytes, s.bytes}, "prefill");
      const auto own = prefill_scratch<KeyDim, ValueDim>::carve(memory, group);
      index_t mine = 0;
      for (index_t i = next.fetch_add(1); i < rows() * tiles; i = next.fetch_add(1)) {
        const index_t row = i / tiles;
        // The last tiles see most: they are begun first.
        const index_t begin = (tiles - 1 - i % tiles) * prefill_query_tile;
        if (begin < count(row / heads())) {
          mine += attend(s.chunk, row / heads(), row % heads(), begin, own);
        }
      }
      visited.fetch_add(mine);
    });
    return visited.load();
  }

  /// The transaction: score and place all tokens, attend, store what survives, count the tokens as seen.
  template <scorer Scorer>
  void run(const host_context& ctx, const Scorer& scorer, const scratch<T, KeyDim, ValueDim>& s) const {
    for (index_t b = 0; b < cache.sequences(); ++b) {
      for (index_t i = 0; i < tokens; ++i) {
        s.chunk.positions[b * tokens + i] = cache.seen(b) + i;
      }
    }
    for_heads(ctx, [&](index_t b, index_t h) noexcept {
      stage_head(cache, scorer, staged(s.chunk, cache, b, h), b, h, k, v, count(b), params.evicted);
    });
    const index_t visited = attend_all(ctx, s);
    for_heads(ctx, [&](index_t b, index_t h) noexcept {
      commit_head(cache, staged(s.chunk, cache, b, h), b, h, count(b));
      if constexpr (needs_queries<Scorer>) {
        note_queries(cache.head(b, h), scorer, h, q, b, count(b), cache.seen(b));
      }
    });
    advance(cache, params.counts, tokens);
    if (params.visited_tiles != nullptr) {
      *params.visited_tiles = visited;
    }
  }

  /// The same for a scorer whose next eviction depends on this token's weights: one token of every sequence at a time.
  template <scorer Scorer>
  void run_steps(const host_context& ctx, const Scorer& scorer, const step_scratch& s) const {
    const auto token = [](const auto& x, index_t i) {
      using element = typename std::remove_cvref_t<decltype(x)>::element_type;
      const auto& n = x.extents();
      const auto& d = x.strides();
      return step_view<element>(x.data() + i * d[1], {n[0], n[2], n[3]}, {d[0], d[2], d[3]});
    };
    const weights_view<float> weights(s.weights, {cache.sequences(), heads(), cache.slots()});
    const std::span<const index_t> counts(s.counts, static_cast<std::size_t>(cache.sequences()));
    for (index_t i = 0; i < tokens; ++i) {
      for (index_t b = 0; b < cache.sequences(); ++b) {
        s.counts[b] = i < count(b) ? 1 : 0;
      }
      append_params step{counts, {}};
      attention_outputs outputs{{}, weights};
      if (params.evicted.data() != nullptr) {
        const auto& d = params.evicted.strides();
        step.evicted = {&params.evicted(0, i, 0), {cache.sequences(), 1, heads()}, d};
      }
      if (params.lse.data() != nullptr) {
        const auto& d = params.lse.strides();
        outputs.lse = {&params.lse(0, i, 0), {cache.sequences(), heads() * group}, {d[0], d[2]}};
      }
      append(ctx, cache, scorer, token(k, i), token(v, i), step);
      decode_attention(ctx, token(q, i), cache, token(out, i), params.attention, outputs, {s.decode, s.bytes});
      attended(ctx, cache, scorer, token(q, i), weights, counts);
    }
    if (params.visited_tiles != nullptr) {
      *params.visited_tiles = 0;
    }
  }

  /// Everything that can be wrong, before anything changes.
  template <scorer Scorer>
  void check(const Scorer& scorer) const {
    const index_t sequences = cache.sequences();
    expects_chunk("prefill: q", q, {sequences, tokens, heads() * group, KeyDim});
    expects_chunk("prefill: k", k, {sequences, tokens, heads(), KeyDim});
    expects_chunk("prefill: v", v, {sequences, tokens, heads(), ValueDim});
    expects_chunk("prefill: out", out, {sequences, tokens, heads() * group, ValueDim});
    expects_scorer("prefill", cache, scorer);
    expects_group("prefill", scorer, group);
    expects_counts("prefill", cache, params.counts, tokens);
    expects_room("prefill", cache, params.counts, tokens);
    expects_evicted("prefill: evicted", cache, params.evicted, tokens);
    if (params.lse.data() != nullptr) {
      expects_extents("prefill: lse", params.lse, {sequences, tokens, heads() * group});
    }
    params.attention.validate();
  }
};

}  // namespace prefill_verb

/// Bytes of workspace that `prefill` takes for chunks of up to `tokens` tokens: budget + chunk, and a constant a thread.
template <scorer Scorer, class T, index_t KeyDim, index_t ValueDim>
std::size_t prefill_workspace(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache,
                              index_t tokens, index_t query_heads) {
  expects(tokens >= 0, "prefill: tokens", tokens, "at least 0");
  const index_t group = group_of("prefill", query_heads, cache.kv_heads());
  carver count;
  if constexpr (needs_weights<Scorer>) {
    static_cast<void>(prefill_verb::step_scratch::carve(count, cache, query_heads));
  } else {
    static_cast<void>(prefill_verb::scratch<T, KeyDim, ValueDim>::carve(count, cache, tokens, group, ctx.threads()));
  }
  return count.bytes();
}

/// Appends a chunk of every sequence and attends: each token's queries see what is held at their position, the chunk's
/// earlier tokens and themselves included, exactly as if the tokens had come one by one (docs/method.md section 2).
///
/// q       [sequences, tokens, query_heads, key_dim]   RoPE applied, any scalar type
/// k, v    [sequences, tokens, kv_heads, key_dim / value_dim]; attention and scorer see them rounded to the cache's type
/// scorer  any: MLP, mLSTM, recency ... run as one pass with death times; SnapKV notes its queries; TOVA and H2O, whose
///         next eviction depends on this token's weights, go token by token inside
/// out     [sequences, tokens, query_heads, value_dim]; rows past a sequence's count are unspecified
///
/// One transaction: score, death times, attention under keep(q, t) = t <= q < death(t), commit. The cache's state
/// afterwards is that of `append` of the same tokens, bit for bit, for any chunking and any number of threads. Tiles of
/// keys that no query of a tile sees are skipped. fp32 accumulation. Soft cap and sliding window: params.attention.
///
/// Errors, before anything changes: extents, counts, params or a scorer that do not fit; a prompt longer than the slots
/// that hold it whole; a workspace below `prefill_workspace`. Memory: the workspace, which grows with budget + chunk.
/// Parallel over sequences x heads x query tiles; does not allocate or synchronise.
template <class Q, class In, class T, index_t KeyDim, index_t ValueDim, scorer Scorer, class Out>
void prefill(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const Scorer& scorer,
             const chunk_view<Q>& q, const chunk_view<In>& k, const chunk_view<In>& v, const chunk_view<Out>& out,
             const prefill_params& params, const workspace& memory) {
  const index_t tokens = k.template extent<axis::token>();
  const index_t query_heads = q.template extent<axis::head>();
  const index_t group = group_of("prefill", query_heads, cache.kv_heads());
  const prefill_verb::job<Q, In, T, KeyDim, ValueDim, Out> job{cache, q, k, v, out, params, tokens, group};
  job.check(scorer);
  carver arrays(memory, "prefill");
  if constexpr (needs_weights<Scorer>) {
    job.run_steps(ctx, scorer, prefill_verb::step_scratch::carve(arrays, cache, query_heads));
  } else {
    job.run(ctx, scorer,
            prefill_verb::scratch<T, KeyDim, ValueDim>::carve(arrays, cache, tokens, group, ctx.threads()));
  }
}

KVPOP_NAMESPACE_END
