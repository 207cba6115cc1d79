#pragma once

#include <cstdint>

#include "kvpop/core/context.hpp"  // host_context

namespace qwen3 {

/// Queries, keys and values of a chunk of one sequence, RoPE applied, dense.
struct qkv_chunk {
  std::int64_t tokens = 0;
  const float* q = nullptr;  // [tokens, query_heads, head_dim]
  const float* k = nullptr;  // [tokens, kv_heads, head_dim]
  const float* v = nullptr;  // [tokens, kv_heads, head_dim]
};

/// What a model's forward pass asks of attention: a cache that evicts, or the dense pass of training.
class attention {
 public:
  virtual ~attention() = default;

  /// Position of token `i` of the chunk that comes next.
  virtual std::int64_t position(std::int64_t i) const = 0;

  /// Attends to the chunk and what came before it: every layer in turn, with the same tokens.
  /// out [tokens, query_heads, head_dim].
  virtual void attend(const kvpop::host_context& ctx, std::int64_t layer, const qkv_chunk& chunk, float* out) = 0;
};

}  // namespace qwen3
