#pragma once

#include "kvpop/cache/budget.hpp"  // budget

KVPOP_NAMESPACE_BEGIN

/// H2O: a slot's priority is the sum of the weights (mean over the group) that all queries so far gave it; the next append
/// drops the lowest sum beyond sinks and window (docs/method.md section 7).
struct h2o {
  static constexpr bool needs_weights = true;
  static constexpr bool needs_queries = false;

  /// The sum in double: one rounding a step, 2^-53 of the sum.
  [[nodiscard]] constexpr double attended(double priority, float weight) const noexcept {
    return priority + static_cast<double>(weight);
  }
};

/// The budget of H2O: sinks, the newest `entries / 2` (at least one) and heavy hitters in the rest.
///
/// Throws `error` unless sinks and window fit.
[[nodiscard]] inline budget h2o_budget(index_t entries, index_t sinks) {
  expects(sinks >= 0, "h2o_budget: sinks", sinks, "at least 0");
  expects(entries >= 1, "h2o_budget: entries", entries, "at least 1");
  const index_t window = entries >= 2 ? entries / 2 : 1;
  expects(sinks <= entries - window, "h2o_budget: sinks", sinks, "at most half of the entries: the rest is the window");
  const budget b{.sinks = sinks, .window = window, .topk = entries - window - sinks};
  b.validate();
  return b;
}

KVPOP_NAMESPACE_END
