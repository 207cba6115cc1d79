#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvpop/core/context.hpp"
#include "qwen3/logits.hpp"
#include "qwen3/method.hpp"
#include "qwen3/model.hpp"
#include "qwen3/safetensors.hpp"

namespace qwen3_test {

inline const std::string notebook = KVPOP_MODELS "/notebook";

/// A plan that keeps `tokens` of them.
inline qwen3::method_plan keep_all(std::int64_t tokens) {
  return qwen3::plan_method(qwen3::method::full, tokens, {}, {}, {});
}

/// The logits of all tokens [tokens, vocabulary], run in chunks.
inline std::vector<float> all_logits(const qwen3::model& network, std::span<const std::int32_t> tokens,
                                     qwen3::kv_cache& cache, std::int64_t chunk) {
  std::vector<float> result;
  qwen3::run_chunks({}, network, tokens, cache, chunk, static_cast<std::int64_t>(tokens.size()),
                    [&](std::span<const float> logits) { result.insert(result.end(), logits.begin(), logits.end()); });
  return result;
}

/// Largest |a - b| as a share of the largest |b|.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  double error = a.size() == b.size() ? 0 : 1e9, largest = 0;
  for (std::size_t i = 0; i < b.size() && i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= error)) error = difference;
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return error / largest;
}

}  // namespace qwen3_test
