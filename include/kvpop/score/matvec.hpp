#pragma once

#include "kvpop/core/simd.hpp"  // simd::vec

/// @file
/// The reductions inside learned scorers. The order of every sum depends on the length of a row alone, never on how many
/// rows there are: scores are the same bits however tokens are handed over.

KVPOP_NAMESPACE_BEGIN

/// out[i] = w[i] . x for `Rows` rows at once, so that each x is loaded once for all of them: two running sums a row.
template <index_t Rows>
KVPOP_INLINE void rows_times(const float* w, index_t n, const float* x, float* out) noexcept {
  constexpr index_t lanes = simd::lanes;
  simd::vec even[Rows] = {};
  simd::vec odd[Rows] = {};
  index_t j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    const simd::vec x0 = simd::load(x + j);
    const simd::vec x1 = simd::load(x + j + lanes);
    for (index_t i = 0; i < Rows; ++i) {
      even[i] = simd::fma(simd::load(w + i * n + j), x0, even[i]);
      odd[i] = simd::fma(simd::load(w + i * n + j + lanes), x1, odd[i]);
    }
  }
  for (; j < n; j += lanes) {
    const index_t rest = n - j < lanes ? n - j : lanes;
    const simd::vec x0 = simd::load_first(x + j, rest);
    for (index_t i = 0; i < Rows; ++i) {
      even[i] = simd::fma(simd::load_first(w + i * n + j, rest), x0, even[i]);
    }
  }
  for (index_t i = 0; i < Rows; ++i) {
    out[i] = simd::reduce_add(even[i] + odd[i]);
  }
}

/// out[rows] = w[rows, n] . x[n]. Reads rows * n floats once.
inline void matvec(const float* w, index_t rows, index_t n, const float* x, float* out) noexcept {
  constexpr index_t block = 4;
  index_t i = 0;
  for (; i + block <= rows; i += block) {
    rows_times<block>(w + i * n, n, x, out + i);
  }
  for (; i < rows; ++i) {
    rows_times<1>(w + i * n, n, x, out + i);
  }
}

/// a . b in double. Products of floats are exact there, so only the eight running sums round: for the few sums that an
/// exponential follows.
inline double dot_double(const float* a, const float* b, index_t n) noexcept {
  constexpr index_t width = 8;
  double sum[width] = {};
  index_t j = 0;
  for (; j + width <= n; j += width) {
    for (index_t i = 0; i < width; ++i) {
      sum[i] += static_cast<double>(a[j + i]) * static_cast<double>(b[j + i]);
    }
  }
  for (index_t i = 0; j + i < n; ++i) {
    sum[i] += static_cast<double>(a[j + i]) * static_cast<double>(b[j + i]);
  }
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

KVPOP_NAMESPACE_END
