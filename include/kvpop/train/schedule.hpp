#pragma once

#include <cmath>
#include <cstdint>

#include "kvpop/core/error.hpp"  // expects

KVPOP_NAMESPACE_BEGIN

/// What the learning rate does after warm-up.
enum class schedule_shape : std::uint8_t { cosine, constant };

/// Learning rate by step: linear from peak / warmup to peak over the first `warmup` steps, then constant, or half a cosine
/// down to peak * floor at the last one (docs/method.md section 6).
struct schedule {
  double peak = 1e-3;
  index_t warmup = 0;
  index_t steps = 1;  ///< of the whole training, warm-up included
  schedule_shape shape = schedule_shape::cosine;
  double floor = 0.0;

  /// Throws `error` unless 0 <= warmup <= steps and steps >= 1.
  void validate() const {
    expects(steps >= 1, "schedule.steps", steps, "at least 1");
    expects(warmup >= 0 && warmup <= steps, "schedule.warmup", warmup, "in 0 .. steps");
  }

  /// The rate of step 1, 2, ... steps; beyond the last one, that of the last one. That of step 0 is 0, or the peak when
  /// there is no warm-up.
  [[nodiscard]] double at(index_t step) const noexcept {
    if (warmup > 0 && step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
    if (shape == schedule_shape::constant) return peak;
    const index_t left = steps - warmup;
    const double done = step >= steps ? 1.0 : static_cast<double>(step - warmup) / static_cast<double>(left);
    return peak * (floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(3.14159265358979323846 * done)));
  }
};

KVPOP_NAMESPACE_END
