#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kv_cache.hpp"            // kv_cache_request
#include "kvpop/core/context.hpp"  // host_context
#include "model.hpp"               // model

namespace qwen3 {

/// How two ways of running one text compare: in chunks, and token by token.
struct agreement_report {
  std::int64_t tokens = 0;
  std::int64_t evictions = 0;         // over all layers and KV heads, in chunks
  std::int64_t different_deaths = 0;  // tokens of a layer and KV head whose death times differ
  std::int64_t replayed_deaths = 0;   // the same when the second run replays the first one's death times: 0
  double largest_logit = 0;           // magnitude
  double own_difference = 0;          // largest of the logits, each run with its own evictions
  double replayed_difference = 0;     // largest under replayed death times
};

/// Runs the tokens three times: in chunks of `chunk`, one by one, and one by one with the first run's evictions. Rounding
/// of matrix products depends on shapes, so death times may differ where priorities are nearly equal; under replayed
/// death times logits differ by rounding alone.
agreement_report compare_chunkings(const kvpop::host_context& ctx, const model& network, const scorer_set& scorers,
                                   const kv_cache_request& request, std::span<const std::int32_t> tokens,
                                   std::int64_t chunk);

/// Largest difference of logits under replayed death times that rounding explains, as a share of the largest logit.
inline constexpr double replay_tolerance = 1e-3;

/// Whether chunked and single steps agree as the tolerance table asks.
bool holds(const agreement_report& report);

std::string agreement_text(const agreement_report& report);

}  // namespace qwen3
