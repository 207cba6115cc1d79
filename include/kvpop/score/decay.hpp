#pragma once

#include <cmath>

#include "kvpop/core/config.hpp"  // KVPOP_NAMESPACE_BEGIN

KVPOP_NAMESPACE_BEGIN

/// log gamma = -softplus(g), the decay of a head from its free parameter, in double (docs/method.md sections 2 and 4). At
/// most 0.
[[nodiscard]] inline double log_gamma_of_parameter(double g) noexcept {
  return -((g > 0.0 ? g : 0.0) + std::log1p(std::exp(-std::abs(g))));
}

/// Its derivative: d log gamma / d g = -sigmoid(g).
[[nodiscard]] inline double log_gamma_slope(double g) noexcept { return -1.0 / (1.0 + std::exp(-g)); }

/// log gamma rounded once to float, as priorities take it.
[[nodiscard]] inline float log_gamma_from(float g) noexcept {
  return static_cast<float>(log_gamma_of_parameter(static_cast<double>(g)));
}

KVPOP_NAMESPACE_END
