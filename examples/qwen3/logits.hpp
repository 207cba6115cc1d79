#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "kv_cache.hpp"            // kv_cache
#include "kvpop/core/context.hpp"  // host_context
#include "model.hpp"               // model

namespace qwen3 {

/// Runs tokens through the model chunk by chunk and hands over each chunk's logits [rows, vocabulary] with its rows. The
/// prompt that the cache was made with ends after `prompt` tokens; a chunk ends there too.
void run_chunks(const kvpop::host_context& ctx, const model& network, std::span<const std::int32_t> tokens,
                kv_cache& cache, std::int64_t chunk, std::int64_t prompt,
                const std::function<void(std::span<const float> logits)>& on_logits);

/// Writes a safetensors file with `logits` [tokens, vocabulary] and, with `keys_and_values`, `keys.L` and `values.L`
/// [kv_heads, tokens, head_dim] of every layer, keys after RoPE; all f32. The cache must then hold every token.
void write_logits(const kvpop::host_context& ctx, const model& network, std::span<const std::int32_t> tokens,
                  kv_cache& cache, std::int64_t chunk, std::int64_t prompt, bool keys_and_values,
                  const std::string& path);

}  // namespace qwen3
