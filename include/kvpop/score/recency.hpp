#pragma once

#include "kvpop/cache/budget.hpp"  // budget

KVPOP_NAMESPACE_BEGIN

/// StreamingLLM: sinks and the newest tokens stay, whatever they are.
///
/// Every token scores 0 and equal priorities are broken in favour of the later token, so any budget drops its oldest
/// token beyond the sinks; `streaming_budget` makes all of it window.
struct recency {
  /// 0 for every token.
  [[nodiscard]] float score(index_t /*head*/, index_t /*position*/, const float* /*x*/,
                            const float* /*memory*/) const noexcept {
    return 0.0F;
  }
};

/// The budget of StreamingLLM: `sinks` and the newest `entries - sinks` tokens (docs/method.md section 7).
///
/// Throws `error` unless 0 <= sinks < entries.
[[nodiscard]] inline budget streaming_budget(index_t entries, index_t sinks) {
  expects(sinks >= 0, "streaming_budget: sinks", sinks, "at least 0");
  expects(entries > sinks, "streaming_budget: entries", entries, "more than the sinks");
  const budget b{.sinks = sinks, .window = entries - sinks, .topk = 0};
  b.validate();
  return b;
}

KVPOP_NAMESPACE_END
