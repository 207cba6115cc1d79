#pragma once

#include "kvpop/cache/reset.hpp"  // expects_sequence

KVPOP_NAMESPACE_BEGIN

/// The slot that holds a position in one head, or -1 when it was evicted or never came. O(held).
template <class T>
index_t find_slot(const head_state<T>& head, index_t position) noexcept {
  for (index_t slot = 0; slot < *head.held; ++slot) {
    if (head.positions[slot] == position) {
      return slot;
    }
  }
  return -1;
}

/// Checks what `pin` and `unpin` ask for: a position that was seen and that every head still holds.
template <class T, index_t KeyDim, index_t ValueDim>
void expects_held(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence, index_t position) {
  expects_sequence(cache, sequence);
  expects(position >= 0, "position", position, "at least 0");
  if (position >= cache.seen(sequence)) [[unlikely]] {
    fail("position is " + std::to_string(position) + "; sequence " + std::to_string(sequence) + " has seen only " +
         std::to_string(cache.seen(sequence)) + " tokens");
  }
  for (index_t h = 0; h < cache.kv_heads(); ++h) {
    if (find_slot(cache.head(sequence, h), position) < 0) [[unlikely]] {
      fail("position " + std::to_string(position) + " was evicted from head " + std::to_string(h) + " of sequence " +
           std::to_string(sequence));
    }
  }
}

/// Marks or unmarks a held position in all heads.
template <class T, index_t KeyDim, index_t ValueDim>
void set_pinned(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence, index_t position,
                std::uint8_t value) noexcept {
  for (index_t h = 0; h < cache.kv_heads(); ++h) {
    const head_state<T> head = cache.head(sequence, h);
    head.pinned[find_slot(head, position)] = value;
  }
}

/// Whether a held position is pinned. Pins are the same in all heads.
template <class T, index_t KeyDim, index_t ValueDim>
bool is_pinned(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence, index_t position) {
  expects_held(cache, sequence, position);
  const head_state<T> head = cache.head(sequence, 0);
  return head.pinned[find_slot(head, position)] != 0;
}

/// Keeps a token in every head of a sequence until it is unpinned. Beyond the sinks it takes one of the `topk`
/// long-range places from the moment it leaves the window (docs/method.md section 2). Pinning twice is pinning once.
///
/// Errors, before anything changes: a position that is negative, not seen yet or evicted from some head; more than
/// `budget.topk` pinned tokens beyond the sinks. O(kv_heads * held); does not allocate.
template <class T, index_t KeyDim, index_t ValueDim>
void pin(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence, index_t position) {
  if (is_pinned(cache, sequence, position)) {
    return;
  }
  const bool sink = position < cache.budget().sinks;
  if (!sink && cache.pins(sequence) >= cache.budget().topk) [[unlikely]] {
    fail("pin: sequence " + std::to_string(sequence) + " has " + std::to_string(cache.pins(sequence)) +
         " pinned tokens; budget.topk is " + std::to_string(cache.budget().topk));
  }
  set_pinned(cache, sequence, position, 1);
  cache.arrays().pins[sequence] += sink ? 0 : 1;
}

/// Makes a pinned token a candidate again, with the priority it was given when it was scored.
///
/// Errors as `pin`. Unpinning a token that is not pinned does nothing.
template <class T, index_t KeyDim, index_t ValueDim>
void unpin(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence, index_t position) {
  if (!is_pinned(cache, sequence, position)) {
    return;
  }
  set_pinned(cache, sequence, position, 0);
  cache.arrays().pins[sequence] -= position < cache.budget().sinks ? 0 : 1;
}

KVPOP_NAMESPACE_END
