#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv_cache.hpp"            // kv_cache, death_record
#include "kvpop/core/context.hpp"  // host_context
#include "model.hpp"               // model
#include "target.hpp"              // target_settings

namespace qwen3 {

/// What a line's tokens will be attended to, by the full model: the training target of every token, layer and head. It drives
/// the oracle, and says which tokens a good cache would hold.
class line_future {
 public:
  /// One dense forward of the line.
  void look(const kvpop::host_context& ctx, const model& network, std::span<const std::int32_t> tokens,
            std::int64_t window, const target_settings& settings);

  /// When every token would die if the target were its score, under these limits.
  death_record deaths(const kvpop::budget& limits) const;

  /// Of the topk tokens with the highest targets among those that have left the window and are no sinks, the share that the
  /// cache holds, for each layer the mean over heads. Empty when there is no such token or no place.
  std::vector<double> recall(const kv_cache& cache, const kvpop::budget& limits) const;

 private:
  std::int64_t layers_ = 0, kv_heads_ = 0, tokens_ = 0;
  std::vector<float> targets_;  // [layers, kv_heads, tokens]
  activations activations_;
  std::vector<std::byte> scratch_;
};

}  // namespace qwen3
