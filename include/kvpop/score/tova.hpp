#pragma once

#include "kvpop/cache/budget.hpp"  // budget

KVPOP_NAMESPACE_BEGIN

/// TOVA: after each attention every held slot's priority becomes its weight (mean over the group), and the next append
/// drops the lowest, the newest token of that attention excepted (docs/method.md section 7).
struct tova {
  static constexpr bool needs_weights = true;
  static constexpr bool needs_queries = false;

  /// The weight itself: what came before is forgotten.
  [[nodiscard]] constexpr double attended(double /*priority*/, float weight) const noexcept {
    return static_cast<double>(weight);
  }
};

/// The budget of TOVA: no sinks, a window of two and `entries - 2` places. The window protects the token being appended
/// and the one before it, which was the newest when the weights were noted.
///
/// Throws `error` unless entries >= 2.
[[nodiscard]] inline budget tova_budget(index_t entries) {
  expects(entries >= 2, "tova_budget: entries", entries, "at least 2");
  const budget b{.sinks = 0, .window = 2, .topk = entries - 2};
  b.validate();
  return b;
}

KVPOP_NAMESPACE_END
