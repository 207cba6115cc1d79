#pragma once

#include <algorithm>

#include "kvpop/cache/place.hpp"         // token_placer
#include "kvpop/cache/token_checks.hpp"  // count_of
#include "kvpop/core/workspace.hpp"      // carver
#include "kvpop/select/order.hpp"        // never

KVPOP_NAMESPACE_BEGIN

/// A chunk between its arrival and its commit: its tokens as the cache will store them, and how long everything that
/// its queries may see lives. All arrays are dense; S = sequences, H = kv_heads.
template <class T>
struct staged_chunk {
  index_t tokens = 0;
  T* keys = nullptr;                  ///< [S, H, tokens, key_dim] rounded to the cache's type
  T* values = nullptr;                ///< [S, H, tokens, value_dim]
  index_t* positions = nullptr;       ///< [S, tokens]
  index_t* deaths = nullptr;          ///< [S, H, tokens] first position whose query no longer sees the token
  std::int32_t* places = nullptr;     ///< [S, H, tokens] the slot each token takes
  index_t* held_positions = nullptr;  ///< [S, H, slots] of what was held when the chunk came
  index_t* held_deaths = nullptr;     ///< [S, H, slots]
  std::int32_t* held = nullptr;       ///< [S, H]

  /// Lays the arrays out: O(budget + chunk) elements a head, and nothing of size chunk x sequence.
  template <index_t KeyDim, index_t ValueDim>
  static staged_chunk carve(carver& memory, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t tokens) {
    const index_t heads = cache.sequences() * cache.kv_heads();
    const index_t all = checked_multiply(heads, tokens, "prefill");
    staged_chunk chunk;
    chunk.tokens = tokens;
    chunk.keys = memory.take<T>(checked_multiply(all, KeyDim, "prefill"));
    chunk.values = memory.take<T>(checked_multiply(all, ValueDim, "prefill"));
    chunk.positions = memory.take<index_t>(checked_multiply(cache.sequences(), tokens, "prefill"));
    chunk.deaths = memory.take<index_t>(all);
    chunk.places = memory.take<std::int32_t>(all);
    chunk.held_positions = memory.take<index_t>(heads * cache.slots());
    chunk.held_deaths = memory.take<index_t>(heads * cache.slots());
    chunk.held = memory.take<std::int32_t>(heads);
    return chunk;
  }
};

/// One head's part of a staged chunk.
template <class T>
struct staged_head {
  T* keys;                  // [tokens, key_dim]
  T* values;                // [tokens, value_dim]
  index_t* positions;       // [tokens]
  index_t* deaths;          // [tokens]
  std::int32_t* places;     // [tokens]
  index_t* held_positions;  // [slots]
  index_t* held_deaths;     // [slots]
  std::int32_t* held;       // one number
};

/// The part of one head of one sequence.
template <class T, index_t KeyDim, index_t ValueDim>
staged_head<T> staged(const staged_chunk<T>& chunk, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache,
                      index_t sequence, index_t h) noexcept {
  const index_t row = sequence * cache.kv_heads() + h;
  const index_t first = row * chunk.tokens;
  return {chunk.keys + first * KeyDim,
          chunk.values + first * ValueDim,
          chunk.positions + sequence * chunk.tokens,
          chunk.deaths + first,
          chunk.places + first,
          chunk.held_positions + row * cache.slots(),
          chunk.held_deaths + row * cache.slots(),
          chunk.held + row};
}

/// Scores and places a chunk's tokens: all bookkeeping of the cache is done, keys and values are not yet stored, so that
/// what the chunk evicts can still be read where it stands. Fills the staged head.
template <class T, index_t KeyDim, index_t ValueDim, scorer Scorer, class In>
void stage_head(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const Scorer& scorer, const staged_head<T>& chunk,
                index_t sequence, index_t h, const chunk_view<In>& k, const chunk_view<In>& v, index_t count,
                const eviction_view& evicted) noexcept {
  const head_state<T> head = cache.head(sequence, h);
  const index_t begin = cache.seen(sequence);
  *chunk.held = *head.held;
  std::copy_n(head.positions, *head.held, chunk.held_positions);
  std::fill_n(chunk.held_deaths, *head.held, never);
  for (index_t i = 0; i < count; ++i) {
    round_to(k.row(sequence, i, h), chunk.keys + i * KeyDim, KeyDim);
    round_to(v.row(sequence, i, h), chunk.values + i * ValueDim, ValueDim);
    chunk.deaths[i] = never;
  }
  const auto stored = [&](index_t t, index_t slot) noexcept {
    return t >= begin ? stored_token<T>{chunk.keys + (t - begin) * KeyDim, chunk.values + (t - begin) * ValueDim}
                      : stored_token<T>{head.keys + slot * KeyDim, head.values + slot * ValueDim};
  };
  token_placer<T, KeyDim, ValueDim, Scorer> placer(head, cache.budget(), scorer, h);
  for (index_t i = 0; i < count; ++i) {
    eviction gone;
    chunk.places[i] = static_cast<std::int32_t>(placer.place(begin + i, stored, gone));
    if (gone.position >= begin) {
      chunk.deaths[gone.position - begin] = begin + i;
    } else if (gone.position >= 0) {
      chunk.held_deaths[gone.slot] = begin + i;
    }
    if (evicted.data() != nullptr) {
      evicted(sequence, i, h) = gone;
    }
  }
}

/// Stores the keys and values of the chunk's survivors in the slots they took. A survivor's slot was left by a token
/// that died in the chunk, or was empty: nothing that is still held is overwritten.
template <class T, index_t KeyDim, index_t ValueDim>
void commit_head(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const staged_head<T>& chunk, index_t sequence,
                 index_t h, index_t count) noexcept {
  const head_state<T> head = cache.head(sequence, h);
  for (index_t i = 0; i < count; ++i) {
    if (chunk.deaths[i] == never) {
      const index_t slot = chunk.places[i];
      std::copy_n(chunk.keys + i * KeyDim, KeyDim, head.keys + slot * KeyDim);
      std::copy_n(chunk.values + i * ValueDim, ValueDim, head.values + slot * ValueDim);
    }
  }
}

KVPOP_NAMESPACE_END
