#pragma once

#include <cstring>
#include <limits>

#include "kvpop/cache/cache_ref.hpp"  // budgeted_cache_ref

KVPOP_NAMESPACE_BEGIN

/// Throws `error` unless 0 <= sequence < the cache's sequences.
template <class T, index_t KeyDim, index_t ValueDim>
void expects_sequence(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence) {
  expects(sequence >= 0, "sequence", sequence, "at least 0");
  if (sequence >= cache.sequences()) [[unlikely]] {
    fail("sequence is " + std::to_string(sequence) + "; the cache has " + std::to_string(cache.sequences()));
  }
}

/// Empties one sequence: nothing held, nothing seen, nothing pinned, the scorer's memory as at the start. Other
/// sequences are not touched; keys and values are left as they are, since no slot refers to them.
///
/// Errors: sequence outside the cache. O(kv_heads * (slots + window + memory)); does not allocate.
template <class T, index_t KeyDim, index_t ValueDim>
void reset(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence) {
  expects_sequence(cache, sequence);
  const cache_arrays<T>& a = cache.arrays();
  for (index_t h = 0; h < cache.kv_heads(); ++h) {
    const head_state<T> state = cache.head(sequence, h);
    for (index_t slot = 0; slot < cache.slots(); ++slot) {
      state.positions[slot] = -1;
      state.priorities[slot] = std::numeric_limits<double>::quiet_NaN();
      state.pinned[slot] = 0;
    }
    for (index_t i = 0; i < cache.budget().window; ++i) {
      state.ring[i] = -1;
    }
    // The scorer gives its memory its first value when it meets position 0; zeros make equal states equal bytes.
    for (index_t i = 0; i < cache.shape().memory; ++i) {
      state.memory[i] = 0;
    }
    *state.held = 0;
  }
  a.seen[sequence] = 0;
  a.pins[sequence] = 0;
  a.limits[sequence] = cache.slots();
}

/// Empties every sequence; also what gives new memory its first state.
template <class T, index_t KeyDim, index_t ValueDim>
void clear(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache) {
  for (index_t sequence = 0; sequence < cache.sequences(); ++sequence) {
    reset(cache, sequence);
  }
}

/// Makes sequence `to` of one cache the same as sequence `from` of another (or of the same) cache: what is held,
/// slot for slot, and the scorer's memory. Other sequences are not touched.
///
/// Errors, before anything changes: a sequence outside its cache; caches that differ in heads, memory, prompt or budget.
/// Writes the held keys and values and O(kv_heads * (slots + window + memory)) of bookkeeping; does not allocate.
template <class T, index_t KeyDim, index_t ValueDim>
void assign(const budgeted_cache_ref<T, KeyDim, ValueDim>& to_cache, index_t to,
            const budgeted_cache_ref<T, KeyDim, ValueDim>& from_cache, index_t from) {
  expects_sequence(to_cache, to);
  expects_sequence(from_cache, from);
  cache_shape shape = from_cache.shape();
  shape.sequences = to_cache.sequences();
  if (!(shape == to_cache.shape()) || !(from_cache.budget() == to_cache.budget())) [[unlikely]] {
    fail("assign: the caches differ in heads, memory, prompt or budget");
  }
  if (to_cache.arrays().keys == from_cache.arrays().keys && to == from) {
    return;
  }
  const auto copy = [](auto* target, const auto* source, index_t count) {
    if (count > 0) {
      std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(*target));
    }
  };
  for (index_t h = 0; h < to_cache.kv_heads(); ++h) {
    const head_state<T> source = from_cache.head(from, h);
    const head_state<T> target = to_cache.head(to, h);
    copy(target.keys, source.keys, *source.held * KeyDim);
    copy(target.values, source.values, *source.held * ValueDim);
    copy(target.positions, source.positions, to_cache.slots());
    copy(target.priorities, source.priorities, to_cache.slots());
    copy(target.pinned, source.pinned, to_cache.slots());
    copy(target.memory, source.memory, shape.memory);
    copy(target.ring, source.ring, to_cache.budget().window);
    *target.held = *source.held;
  }
  to_cache.arrays().seen[to] = from_cache.arrays().seen[from];
  to_cache.arrays().pins[to] = from_cache.arrays().pins[from];
  to_cache.arrays().limits[to] = from_cache.arrays().limits[from];
}

KVPOP_NAMESPACE_END
