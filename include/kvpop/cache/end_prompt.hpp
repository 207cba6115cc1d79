#pragma once

#include <algorithm>

#include "kvpop/attention/params.hpp"    // attention_params
#include "kvpop/cache/compact.hpp"       // compact
#include "kvpop/cache/token_checks.hpp"  // expects_scorer
#include "kvpop/score/snapkv.hpp"        // snapkv

KVPOP_NAMESPACE_BEGIN

/// Bytes of workspace that `end_prompt` takes.
template <class T, index_t KeyDim, index_t ValueDim>
std::size_t end_prompt_workspace(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache) {
  carver score;
  for (index_t h = 0; h < cache.kv_heads(); ++h) {
    static_cast<void>(snapkv_scratch(score, cache.slots()));
  }
  const std::size_t fold = compact_workspace(cache);
  return fold > score.bytes() ? fold : score.bytes();
}

/// Gives every held token of a sequence the priority that the prompt's last queries give it.
template <class T, index_t KeyDim, index_t ValueDim>
void score_prompt(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const snapkv& scorer,
                  index_t sequence, float scale, const workspace& memory) {
  carver arrays(memory, "end_prompt");
  const snapkv_scratch first(arrays, cache.slots() * cache.kv_heads());
  ctx.parallel_for(cache.kv_heads(), [&](index_t h) noexcept {
    const head_state<T> head = cache.head(sequence, h);
    snapkv_scratch own = first;
    own.logits += h * cache.slots();
    own.mass += h * cache.slots();
    snapkv_priorities(scorer, head.keys, head.positions, *head.held, scale, head.memory, head.priorities, own);
  });
}

/// Ends the prompt of a sequence that was held whole (SnapKV): its tokens are scored by the newest 32 queries, the
/// sequence is brought down to its budget (`compact`), and from then on the oldest token beyond the sinks goes first.
///
/// attention  the model's scale; SnapKV is defined on plain softmax weights, so a soft cap or a sliding window is refused
///
/// Errors, before anything changes: a sequence outside the cache or whose prompt has ended already; a scorer that does
/// not fit the cache; a soft cap or sliding window; a workspace below `end_prompt_workspace`. Reads the held keys 32 * group times; parallel over
/// heads; does not allocate or synchronise. Method: docs/method.md section 7.
template <class T, index_t KeyDim, index_t ValueDim>
void end_prompt(const host_context& ctx, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const snapkv& scorer,
                index_t sequence, const attention_params& attention, const workspace& memory) {
  expects_sequence(cache, sequence);
  expects_scorer("end_prompt", cache, scorer);
  attention.validate();
  expects(attention.sliding_window == 0, "end_prompt: attention_params.sliding_window", attention.sliding_window,
          "0: SnapKV scores a prompt without one");
  if (attention.soft_cap != 0.0F) [[unlikely]] {
    fail("end_prompt: attention_params.soft_cap is " + std::to_string(attention.soft_cap) +
         "; it must be 0: SnapKV scores a prompt without one");
  }
  if (cache.limit(sequence) < cache.slots() || cache.seen(sequence) > cache.slots()) [[unlikely]] {
    fail("end_prompt: the prompt of sequence " + std::to_string(sequence) + " has ended already");
  }
  const std::size_t needed = end_prompt_workspace(cache);
  if (memory.bytes < needed) [[unlikely]] {
    fail("end_prompt: workspace.bytes is " + std::to_string(memory.bytes) + "; at least " + std::to_string(needed) +
         " are needed");
  }
  score_prompt(ctx, cache, scorer, sequence, attention.scale_for(KeyDim), memory);
  compact(ctx, cache, sequence, memory);
  for (index_t h = 0; h < cache.kv_heads(); ++h) {
    const head_state<T> head = cache.head(sequence, h);
    std::fill_n(head.priorities, *head.held, 0.0);
  }
}

KVPOP_NAMESPACE_END
