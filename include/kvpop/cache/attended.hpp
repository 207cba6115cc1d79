#pragma once

#include <array>
#include <span>
#include <string>
#include <type_traits>

#include "kvpop/cache/token_checks.hpp"  // expects_chunk, expects_scorer, count_of
#include "kvpop/core/context.hpp"        // host_context

KVPOP_NAMESPACE_BEGIN

/// What each held slot received from the newest queries: [sequences, kv_heads, slots], mean over the group.
template <class T, class Memory = host_memory>
using weights_view = view<T, Memory, axis::sequence, axis::head, axis::slot>;

/// Rewrites the priorities of one head from the weights of its held slots.
template <class T, attending_scorer Scorer>
void attended_head(const head_state<T>& head, const Scorer& scorer, const float* weights) noexcept {
  for (index_t slot = 0; slot < *head.held; ++slot) {
    head.priorities[slot] = scorer.attended(head.priorities[slot], weights[slot]);
  }
}

/// Hands a scorer that remembers queries those of one head: the tokens [0, count) of the chunk, the first at `position`.
template <class T, querying_scorer Scorer, class In>
void note_queries(const head_state<T>& head, const Scorer& scorer, index_t h, const chunk_view<In>& q, index_t sequence,
                  index_t count, index_t position) noexcept {
  const index_t group = scorer.group();
  const index_t dim = scorer.key_dim();
  for (index_t i = 0; i < count; ++i) {
    float* rows = scorer.query_place(position + i, head.memory);  // [group, key_dim]
    for (index_t g = 0; g < group; ++g) {
      const In* source = q.row(sequence, i, h * group + g);
      for (index_t d = 0; d < dim; ++d) {
        rows[g * dim + d] = scalar_traits<std::remove_const_t<In>>::to_float(source[d]);
      }
    }
  }
}

/// Throws `error` unless the scorer was made for as many query heads a KV head as there are.
template <scorer Scorer>
void expects_group(const std::string& verb, const Scorer& scorer, index_t group) {
  if constexpr (querying_scorer<Scorer>) {
    if (scorer.group() != group) [[unlikely]] {
      fail(verb + ": scorer.group is " + std::to_string(scorer.group()) + "; q has " + std::to_string(group) +
           " query heads a KV head");
    }
  }
}

/// Query heads that share a KV head. Throws `error` unless `query_heads` is a positive multiple of `kv_heads`.
inline index_t group_of(const std::string& verb, index_t query_heads, index_t kv_heads) {
  if (query_heads < 1 || query_heads % kv_heads != 0) [[unlikely]] {
    fail(verb + ": q.extent(head) is " + std::to_string(query_heads) +
         "; it must be a positive multiple of the cache's " + std::to_string(kv_heads) + " KV heads");
  }
  return query_heads / kv_heads;
}

/// Tells a scorer that follows attention what the newest token's queries have seen; the last part of a step, after
/// `append` and `decode_attention`. For a scorer that gives scores (all but TOVA, H2O and SnapKV) it does nothing, so an
/// engine may call it always. `prefill` does all of this itself.
///
/// q        [sequences, query_heads, key_dim] the queries of the newest token; SnapKV reads them, others take an empty view
/// weights  [sequences, kv_heads, slots] from `decode_attention`; TOVA and H2O read them, others take an empty view
/// counts   [sequences] 0 where a sequence had no token in this step; empty: all had one
///
/// Errors, before anything changes: extents that do not fit; a view missing that the scorer needs; a scorer that does not
/// fit the cache. O(held) a head; parallel over sequences x heads; does not allocate or synchronise.
template <class T, index_t KeyDim, index_t ValueDim, scorer Scorer, class In, class Weight>
void attended(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const Scorer& scorer,
              const step_view<In>& q, const weights_view<Weight>& weights, std::span<const index_t> counts = {}) {
  if constexpr (attending_scorer<Scorer>) {
    expects_scorer("attended", cache, scorer);
    expects_counts("attended", cache, counts, 1);
    const index_t heads = cache.kv_heads();
    if constexpr (needs_queries<Scorer>) {
      const index_t query_heads = q.template extent<axis::head>();
      expects_group("attended", scorer, group_of("attended", query_heads, heads));
      expects_chunk("attended: q", as_chunk(q), {cache.sequences(), 1, query_heads, KeyDim});
    }
    if constexpr (needs_weights<Scorer>) {
      expects_extents("attended: weights", weights, {cache.sequences(), heads, cache.slots()});
      expects_rows("attended: weights", weights);
    }
    ctx.parallel_for(cache.sequences() * heads, [&](index_t i) noexcept {
      const index_t sequence = i / heads;
      if (count_of(counts, sequence, 1) == 0 || cache.seen(sequence) == 0) {
        return;
      }
      const head_state<T> head = cache.head(sequence, i % heads);
      if constexpr (needs_queries<Scorer>) {
        note_queries(head, scorer, i % heads, as_chunk(q), sequence, 1, cache.seen(sequence) - 1);
      }
      if constexpr (needs_weights<Scorer>) {
        attended_head(head, scorer, weights.row(sequence, i % heads));
      }
    });
  }
}

KVPOP_NAMESPACE_END
