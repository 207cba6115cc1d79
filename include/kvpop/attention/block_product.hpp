#pragma once

#include "kvpop/core/simd.hpp"  // vec, fma

/// @file
/// The matrix product inside prefill and transposed attention: a few rows against one panel of columns, all sums in
/// registers.

KVPOP_NAMESPACE_BEGIN

namespace prefill_kernel {

/// Columns of a panel: two vectors.
inline constexpr index_t panel = 2 * simd::lanes;
/// Rows of the left factor that are multiplied together.
inline constexpr int block_rows = simd::lanes == 16 ? 8 : 4;

/// c[r][v] = c[r][v] * factor[r] + sum over i < depth of a[r][i] * b[i][v], or without the first term when factor is
/// null. a[r][i] is a[r * row_step + i * depth_step]; the rows of b and c are b_step and c_step apart.
template <int Rows, int Vectors>
KVPOP_INLINE void multiply(const float* a, index_t row_step, index_t depth_step, const float* b, index_t b_step,
                           index_t depth, float* c, index_t c_step, const float* factor) noexcept {
  simd::vec sum[Rows][Vectors] = {};
  if (factor != nullptr) {
    KVPOP_UNROLL
    for (int r = 0; r < Rows; ++r) {
      KVPOP_UNROLL
      for (int v = 0; v < Vectors; ++v) {
        sum[r][v] = simd::load(c + r * c_step + v * simd::lanes) * simd::broadcast(factor[r]);
      }
    }
  }
  for (index_t i = 0; i < depth; ++i) {
    simd::vec x[Vectors];
    KVPOP_UNROLL
    for (int v = 0; v < Vectors; ++v) x[v] = simd::load(b + i * b_step + v * simd::lanes);
    KVPOP_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const simd::vec y = simd::broadcast(a[r * row_step + i * depth_step]);
      KVPOP_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[r][v] = simd::fma(y, x[v], sum[r][v]);
    }
  }
  KVPOP_UNROLL
  for (int r = 0; r < Rows; ++r) {
    KVPOP_UNROLL
    for (int v = 0; v < Vectors; ++v) simd::store(c + r * c_step + v * simd::lanes, sum[r][v]);
  }
}

}  // namespace prefill_kernel

KVPOP_NAMESPACE_END
