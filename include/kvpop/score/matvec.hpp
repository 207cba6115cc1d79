#pragma once

#include "kvpop/core/simd.hpp"  // KVPOP_HAS_BUILTIN, KVPOP_SIMD_LANES

/// @file
/// The sums inside learned scorers: floats in, accumulated in double. Products of floats are exact in double, so only the
/// additions round, and those stand in one order that depends on the length of a row alone: sixteen running sums, folded
/// in halves. A score is therefore the same bits however tokens are handed over, and its sums are the same on every
/// instruction set.

KVPOP_NAMESPACE_BEGIN

/// Doubles in the width of the machine and the floats that widen to them.
namespace wide {

inline constexpr index_t lanes = KVPOP_SIMD_LANES / 2;
inline constexpr index_t sums = 16;             ///< running sums of a row
inline constexpr index_t parts = sums / lanes;  ///< vectors that hold them
using floats [[gnu::vector_size(lanes * 4)]] = float;
using doubles [[gnu::vector_size(lanes * 8)]] = double;

KVPOP_INLINE doubles load(const float* p) noexcept {
  floats f;
  __builtin_memcpy(&f, p, sizeof(f));
// One instruction: g++ 12 would widen two halves and join them.
#if KVPOP_SIMD_LANES == 16 && KVPOP_HAS_BUILTIN(__builtin_ia32_cvtps2pd512_mask)
  return __builtin_ia32_cvtps2pd512_mask(f, doubles{}, static_cast<unsigned char>(-1), 4);
#elif KVPOP_SIMD_LANES == 8 && KVPOP_HAS_BUILTIN(__builtin_ia32_cvtps2pd256)
  return __builtin_ia32_cvtps2pd256(f);
#else
  return __builtin_convertvector(f, doubles);
#endif
}

}  // namespace wide

/// out[i] = w[i] . x for `Rows` rows at once, so that each x is loaded and widened once for all of them.
template <index_t Rows, class Out>
KVPOP_INLINE void rows_times(const float* w, index_t n, const float* x, Out* out) noexcept {
  constexpr index_t half = wide::sums / 2;
  // 4 KiB ahead parameters arrive at 85 to 95 % of raw read bandwidth, without prefetch at 60 %. It may run past the end.
  constexpr index_t ahead = 1024;
  wide::doubles sum[Rows][wide::parts] = {};
  index_t j = 0;
  for (; j + wide::sums <= n; j += wide::sums) {
#pragma GCC unroll 8
    for (index_t i = 0; i < Rows; ++i) {
      __builtin_prefetch(w + i * n + j + ahead);  // one cache line a row
    }
#pragma GCC unroll 8
    for (index_t p = 0; p < wide::parts; ++p) {
      const wide::doubles xp = wide::load(x + j + p * wide::lanes);
#pragma GCC unroll 8
      for (index_t i = 0; i < Rows; ++i) {
        sum[i][p] += wide::load(w + i * n + j + p * wide::lanes) * xp;
      }
    }
  }
  const bool eight = j + half <= n;
#pragma GCC unroll 8
  for (index_t i = 0; i < Rows; ++i) {
    const float* row = w + i * n;
    double s[half];
#pragma GCC unroll 8
    for (index_t p = 0; p < wide::parts / 2; ++p) {
      wide::doubles folded = sum[i][p] + sum[i][p + wide::parts / 2];
      if (eight) {
        folded += wide::load(row + j + p * wide::lanes) * wide::load(x + j + p * wide::lanes);
      }
      __builtin_memcpy(s + p * wide::lanes, &folded, sizeof(folded));
    }
    const index_t tail = eight ? j + half : j;
    for (index_t k = 0; tail + k < n; ++k) {
      s[k] += static_cast<double>(row[tail + k]) * static_cast<double>(x[tail + k]);
    }
    out[i] = static_cast<Out>(((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
  }
}

/// out[rows] = w[rows, n] . x[n], each rounded once. Reads rows * n floats once.
inline void matvec(const float* w, index_t rows, index_t n, const float* x, float* out) noexcept {
  constexpr index_t block = KVPOP_SIMD_LANES / 4;  // eight vectors of running sums
  index_t i = 0;
  for (; i + block <= rows; i += block) {
    rows_times<block>(w + i * n, n, x, out + i);
  }
  for (; i < rows; ++i) {
    rows_times<1>(w + i * n, n, x, out + i);
  }
}

/// a . b, not rounded to float.
inline double dot_double(const float* a, const float* b, index_t n) noexcept {
  double sum = 0.0;
  rows_times<1>(a, n, b, &sum);
  return sum;
}

KVPOP_NAMESPACE_END
