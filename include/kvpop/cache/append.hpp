#pragma once

#include <algorithm>

#include "kvpop/cache/place.hpp"         // token_placer, eviction
#include "kvpop/cache/token_checks.hpp"  // expects_chunk, expects_scorer, expects_counts
#include "kvpop/core/context.hpp"        // host_context

KVPOP_NAMESPACE_BEGIN

/// Optional arguments of `append`.
struct append_params {
  /// How many of the chunk's tokens belong to each sequence, [sequences]; empty: all of them.
  std::span<const index_t> counts = {};
  /// What each token evicted, [sequences, tokens, kv_heads]; empty: not wanted. Entries past a count are left alone.
  eviction_view evicted = {};
};

/// Appends the tokens of one head of one sequence.
template <class T, index_t KeyDim, index_t ValueDim, scorer Scorer, class In>
void append_head(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const Scorer& scorer, index_t sequence,
                 index_t h, const chunk_view<In>& k, const chunk_view<In>& v, index_t count,
                 const append_params& params) noexcept {
  const head_state<T> head = cache.head(sequence, h);
  token_placer<T, KeyDim, ValueDim, Scorer> placer(head, cache.budget(), scorer, h);
  T key[KeyDim];
  T value[ValueDim];
  for (index_t i = 0; i < count; ++i) {
    const index_t q = cache.seen(sequence) + i;
    round_to(k.row(sequence, i, h), key, KeyDim);
    round_to(v.row(sequence, i, h), value, ValueDim);
    const auto stored = [&](index_t, index_t slot) noexcept {
      return slot < 0 ? stored_token<T>{key, value}
                      : stored_token<T>{head.keys + slot * KeyDim, head.values + slot * ValueDim};
    };
    eviction gone;
    const index_t slot = placer.place(q, stored, gone);
    std::copy_n(key, KeyDim, head.keys + slot * KeyDim);
    std::copy_n(value, ValueDim, head.values + slot * ValueDim);
    if (params.evicted.data() != nullptr) {
      params.evicted(sequence, i, h) = gone;
    }
  }
}

/// Appends the next tokens of every sequence: scores, evicts what the budget has no room for, stores.
///
/// k, v      [sequences, tokens, kv_heads, key_dim / value_dim], RoPE applied, of any scalar type; rounded to the cache's.
///           Any strides but that of the last axis, so a fused QKV projection is read in place.
/// scorer    says what matters; score/scorer.hpp. Its memory is part of the sequence's state in the cache.
///
/// A chunk of n tokens leaves the state that n single appends leave, bit for bit, for any chunking and any number of
/// threads. Each head of each sequence writes one key, one value and one entry of bookkeeping a token; a held token is
/// never moved.
///
/// Errors, before anything changes: extents or counts that do not fit; a scorer made for other heads, dimensions
/// or memory, or read later than the window allows; several tokens at once for a scorer that follows attention (TOVA, H2O, SnapKV: use `prefill`); a
/// prompt that is longer than the slots that hold it whole.
/// O(tokens * (slots + the scorer)) a head; parallel over sequences x heads; does not allocate or synchronise.
template <class T, index_t KeyDim, index_t ValueDim, scorer Scorer, class In>
void append(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const Scorer& scorer,
            const chunk_view<In>& k, const chunk_view<In>& v, const append_params& params = {}) {
  const index_t tokens = k.template extent<axis::token>();
  expects_chunk("append: k", k, {cache.sequences(), tokens, cache.kv_heads(), KeyDim});
  expects_chunk("append: v", v, {cache.sequences(), tokens, cache.kv_heads(), ValueDim});
  expects_scorer("append", cache, scorer);
  expects_counts("append", cache, params.counts, tokens);
  expects_room("append", cache, params.counts, tokens);
  expects_evicted("append: evicted", cache, params.evicted, tokens);
  if constexpr (needs_weights<Scorer> || needs_queries<Scorer>) {
    expects(tokens <= 1, "append: k.extent(token)", tokens,
            "at most 1 for a scorer that follows attention weights; prefill takes many");
  }
  const index_t heads = cache.kv_heads();
  ctx.parallel_for(cache.sequences() * heads, [&](index_t i) noexcept {
    const index_t sequence = i / heads;
    append_head(cache, scorer, sequence, i % heads, k, v, count_of(params.counts, sequence, tokens), params);
  });
  advance(cache, params.counts, tokens);
}

/// The same for one token of every sequence: k, v [sequences, kv_heads, dim].
template <class T, index_t KeyDim, index_t ValueDim, scorer Scorer, class In>
void append(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const Scorer& scorer,
            const step_view<In>& k, const step_view<In>& v, const append_params& params = {}) {
  append(ctx, cache, scorer, as_chunk(k), as_chunk(v), params);
}

KVPOP_NAMESPACE_END
