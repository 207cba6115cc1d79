#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "kv_cache.hpp"            // kv_cache
#include "kvpop/core/context.hpp"  // host_context
#include "model.hpp"               // model
#include "sampler.hpp"             // sampler
#include "tokenizer.hpp"           // tokenizer

namespace qwen3 {

struct generation_limits {
  std::int64_t max_tokens = 256;
  std::int64_t chunk = 512;  // tokens of the prompt taken at once
};

/// What was generated, and how long it took. What each KV head still holds is asked of the cache.
struct generation {
  std::vector<std::int32_t> tokens;  // without the stop token
  bool stopped = false;              // by a stop token, and not by max_tokens
  double prompt_seconds = 0;
  double decode_seconds = 0;  // of `steps` forward passes
  std::int64_t steps = 0;
};

/// Continues a prompt. `on_text` gets the text as it is made, whole characters at a time; the prompt is not repeated.
///
/// prompt  at least one token, each within the vocabulary; the cache was made for it and is empty
/// stop    any of these tokens ends the text
///
/// Positions past the model's max_position_embeddings are warned of once on stderr.
generation generate(const kvpop::host_context& ctx, const model& network, const tokenizer& words, kv_cache& cache,
                    std::span<const std::int32_t> prompt, std::span<const std::int32_t> stop, sampler& sample,
                    const generation_limits& limits, const std::function<void(std::string_view)>& on_text);

/// Warns on stderr when a sequence of `tokens` goes past what the model was trained for.
void warn_of_positions(const model_config& config, std::int64_t tokens);

}  // namespace qwen3
