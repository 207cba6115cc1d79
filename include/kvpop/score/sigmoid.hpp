#pragma once

#include "kvpop/core/math.hpp"  // simd::exp

KVPOP_NAMESPACE_BEGIN

/// 1 / (1 + exp(-z)) for each lane; the argument is held above -80, so that no infinity meets an approximate division.
KVPOP_INLINE simd::vec sigmoid(simd::vec z) noexcept {
  const simd::vec one = simd::broadcast(1.0F);
  return one / (one + simd::exp(simd::min(simd::broadcast(80.0F), -z)));
}

/// z[n] becomes sigmoid(z).
inline void sigmoid_in_place(float* z, index_t n) noexcept {
  for (index_t i = 0; i < n; i += simd::lanes) {
    if (n - i >= simd::lanes) {
      simd::store(z + i, sigmoid(simd::load(z + i)));
    } else {
      simd::store_first(z + i, sigmoid(simd::load_first(z + i, n - i)), n - i);
    }
  }
}

KVPOP_NAMESPACE_END
