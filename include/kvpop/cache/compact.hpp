#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kvpop/cache/reset.hpp"     // expects_sequence
#include "kvpop/core/context.hpp"    // host_context
#include "kvpop/core/workspace.hpp"  // carver
#include "kvpop/select/top_k.hpp"    // top_k_row

KVPOP_NAMESPACE_BEGIN

/// Scratch of a compaction: the candidates for the long-range places of each head, and who stays. H = kv_heads.
struct compact_scratch {
  double* priorities = nullptr;   // [H, slots] of the candidates
  index_t* positions = nullptr;   // [H, slots]
  index_t* slots = nullptr;       // [H, slots]
  index_t* chosen = nullptr;      // [H, topk] indices into the candidates
  std::uint8_t* stays = nullptr;  // [H, slots]
  top_k_scratch selection;        // [H]

  static compact_scratch carve(carver& memory, index_t heads, index_t slots, index_t topk) {
    const index_t all = checked_multiply(heads, slots, "compact: workspace");
    compact_scratch s;
    s.priorities = memory.take<double>(all);
    s.positions = memory.take<index_t>(all);
    s.slots = memory.take<index_t>(all);
    s.chosen = memory.take<index_t>(checked_multiply(heads, topk, "compact: workspace"));
    s.stays = memory.take<std::uint8_t>(all);
    s.selection = top_k_scratch::carve(memory, heads, slots, std::min(topk, slots));
    return s;
  }

  [[nodiscard]] compact_scratch of_head(index_t h, index_t slot_count, index_t topk) const noexcept {
    return {priorities + h * slot_count, positions + h * slot_count,
            slots + h * slot_count,      chosen + h * topk,
            stays + h * slot_count,      selection.of_task(h, slot_count, std::min(topk, slot_count))};
  }
};

/// Marks who stays of a head that holds more than its budget: sinks, window, pinned tokens, and the best of the others.
template <class T>
void mark_survivors(const head_state<T>& head, const budget& limits, index_t seen,
                    const compact_scratch& scratch) noexcept {
  index_t candidates = 0;
  index_t places = limits.topk;
  for (index_t slot = 0; slot < *head.held; ++slot) {
    const index_t position = head.positions[slot];
    const bool long_range = position >= limits.sinks && position < seen - limits.window;
    const bool candidate = long_range && head.pinned[slot] == 0;
    scratch.stays[slot] = candidate ? 0 : 1;
    places -= long_range && !candidate ? 1 : 0;
    if (candidate) {
      scratch.priorities[candidates] = head.priorities[slot];
      scratch.positions[candidates] = position;
      scratch.slots[candidates++] = slot;
    }
  }
  const index_t best = std::min(places, candidates);
  top_k_row(scratch.priorities, scratch.positions, candidates, scratch.selection)
      .select(scratch.chosen, best, top_k_order::unspecified);
  for (index_t i = 0; i < best; ++i) {
    scratch.stays[scratch.slots[scratch.chosen[i]]] = 1;
  }
}

/// Moves the tokens that stay into the slots [0, their number); those that stand there already do not move.
template <class T>
void close_gaps(const head_state<T>& head, index_t key_dim, index_t value_dim, index_t window, index_t seen,
                const std::uint8_t* stays) noexcept {
  const index_t before = *head.held;
  const index_t after = std::count(stays, stays + before, std::uint8_t{1});
  index_t gap = 0;
  for (index_t slot = after; slot < before; ++slot) {
    if (stays[slot] != 0) {
      while (stays[gap] != 0) {
        ++gap;
      }
      std::copy_n(head.keys + slot * key_dim, key_dim, head.keys + gap * key_dim);
      std::copy_n(head.values + slot * value_dim, value_dim, head.values + gap * value_dim);
      head.positions[gap] = head.positions[slot];
      head.priorities[gap] = head.priorities[slot];
      head.pinned[gap] = head.pinned[slot];
      if (head.positions[gap] >= seen - window) {
        head.ring[head.positions[gap] % window] = static_cast<std::int32_t>(gap);
      }
      ++gap;
    }
    head.positions[slot] = -1;
    head.priorities[slot] = std::numeric_limits<double>::quiet_NaN();
    head.pinned[slot] = 0;
  }
  *head.held = static_cast<std::int32_t>(after);
}

/// Bytes of workspace that `compact` takes.
template <class T, index_t KeyDim, index_t ValueDim>
std::size_t compact_workspace(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache) {
  carver count;
  static_cast<void>(compact_scratch::carve(count, cache.kv_heads(), cache.slots(), cache.budget().topk));
  return count.bytes();
}

/// Brings a sequence that was held whole (`cache_shape.prompt`) down to its budget: sinks, window, pinned tokens and the
/// best of the rest by priority stay. Survivors move into the slots [0, capacity): the one place where a held token
/// changes its slot. From here on the sequence evicts at each step. A sequence within its budget only changes its limit.
///
/// Errors, before anything changes: a sequence outside the cache, a workspace that is too small.
/// O(held) a head, parallel over heads; moves at most `capacity` tokens; does not allocate or synchronise.
template <class T, index_t KeyDim, index_t ValueDim>
void compact(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence,
             const workspace& memory) {
  expects_sequence(cache, sequence);
  const index_t topk = cache.budget().topk;
  carver arrays(memory, "compact");
  const compact_scratch scratch = compact_scratch::carve(arrays, cache.kv_heads(), cache.slots(), topk);
  ctx.parallel_for(cache.kv_heads(), [&](index_t h) noexcept {
    const head_state<T> head = cache.head(sequence, h);
    if (*head.held > cache.capacity()) {
      const compact_scratch own = scratch.of_head(h, cache.slots(), topk);
      mark_survivors(head, cache.budget(), cache.seen(sequence), own);
      close_gaps(head, KeyDim, ValueDim, cache.budget().window, cache.seen(sequence), own.stays);
    }
  });
  cache.arrays().limits[sequence] = cache.capacity();
}

KVPOP_NAMESPACE_END
