#pragma once

#include <cmath>

#include "kvpop/core/config.hpp"  // KVPOP_NAMESPACE_BEGIN

KVPOP_NAMESPACE_BEGIN

/// log gamma = -softplus(g), the decay of a head from its free parameter: in double, rounded once to float
/// (docs/method.md sections 2 and 4). At most 0.
[[nodiscard]] inline float log_gamma_from(float g) noexcept {
  const double x = static_cast<double>(g);
  const double softplus = (x > 0.0 ? x : 0.0) + std::log1p(std::exp(-std::abs(x)));
  return static_cast<float>(-softplus);
}

KVPOP_NAMESPACE_END
