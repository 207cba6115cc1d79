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
