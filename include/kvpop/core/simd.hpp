#pragma once

#include <cstdint>

#include "kvpop/core/config.hpp"  // KVPOP_INLINE, index_t
#include "kvpop/core/dtype.hpp"   // float16, bfloat16, scalar_traits

/// @file
/// Vectors of floats in the width of the machine: compiler vector types, so that one source serves SSE2, AVX2, AVX-512
/// and NEON (docs/decisions/0001-simd-vehicle.md). Plain `+ - * /`, comparisons and `?:` work on them.

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define KVPOP_SIMD_LANES 16
#elif defined(__AVX2__)
#define KVPOP_SIMD_LANES 8
#else
#define KVPOP_SIMD_LANES 4
#endif
#if defined(__has_builtin)
#define KVPOP_HAS_BUILTIN(name) __has_builtin(name)
#else
#define KVPOP_HAS_BUILTIN(name) 0
#endif

/// Before a loop over an array of vectors that should live in registers: unrolled whole.
#if defined(__clang__)
#define KVPOP_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define KVPOP_UNROLL _Pragma("GCC unroll 16")
#else
#define KVPOP_UNROLL
#endif

KVPOP_NAMESPACE_BEGIN

namespace simd {

/// Floats in one vector: 16 with AVX-512, 8 with AVX2, else 4.
inline constexpr index_t lanes = KVPOP_SIMD_LANES;

using vec [[gnu::vector_size(KVPOP_SIMD_LANES * 4)]] = float;
using ivec [[gnu::vector_size(KVPOP_SIMD_LANES * 4)]] = std::int32_t;
using uvec [[gnu::vector_size(KVPOP_SIMD_LANES * 4)]] = std::uint32_t;
using hvec [[gnu::vector_size(KVPOP_SIMD_LANES * 2)]] = std::uint16_t;

/// The bits of a vector, and back.
KVPOP_INLINE uvec as_bits(vec v) noexcept { return reinterpret_cast<uvec>(v); }
KVPOP_INLINE vec as_floats(uvec v) noexcept { return reinterpret_cast<vec>(v); }

KVPOP_INLINE vec broadcast(float x) noexcept { return x - vec{}; }
KVPOP_INLINE uvec broadcast_bits(std::uint32_t x) noexcept { return x - uvec{}; }

/// Zero-extends each lane.
KVPOP_INLINE uvec widen_bits(hvec h) noexcept {
// g++ 12 widens one half after the other where it is left to __builtin_convertvector.
#if KVPOP_SIMD_LANES == 16 && KVPOP_HAS_BUILTIN(__builtin_ia32_pmovzxwd512_mask)
  using in [[gnu::vector_size(32)]] = std::int16_t;
  return reinterpret_cast<uvec>(
      __builtin_ia32_pmovzxwd512_mask(reinterpret_cast<in>(h), ivec{}, static_cast<unsigned short>(-1)));
#elif KVPOP_SIMD_LANES == 8 && KVPOP_HAS_BUILTIN(__builtin_ia32_pmovzxwd256)
  using in [[gnu::vector_size(16)]] = std::int16_t;
  return reinterpret_cast<uvec>(__builtin_ia32_pmovzxwd256(reinterpret_cast<in>(h)));
#else
  return __builtin_convertvector(h, uvec);
#endif
}

/// a * b + c: one rounding where the instruction set has it, two where it has not (SSE2).
KVPOP_INLINE vec fma(vec a, vec b, vec c) noexcept {
#if KVPOP_SIMD_LANES == 16 && KVPOP_HAS_BUILTIN(__builtin_ia32_vfmaddps512_mask)
  return __builtin_ia32_vfmaddps512_mask(a, b, c, static_cast<unsigned short>(-1), 4);  // 4: the current rounding mode
#elif KVPOP_SIMD_LANES == 8 && defined(__FMA__) && KVPOP_HAS_BUILTIN(__builtin_ia32_vfmaddps256)
  return __builtin_ia32_vfmaddps256(a, b, c);
#elif KVPOP_SIMD_LANES == 4 && defined(__FMA__) && KVPOP_HAS_BUILTIN(__builtin_ia32_vfmaddps)
  return __builtin_ia32_vfmaddps(a, b, c);
#elif KVPOP_HAS_BUILTIN(__builtin_elementwise_fma) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;  // compilers contract this where they may
#endif
}

/// mask ? a : b for each lane; a lane of the mask is all ones or all zeros, as comparisons give.
KVPOP_INLINE vec select(ivec mask, vec a, vec b) noexcept { return mask ? a : b; }
KVPOP_INLINE uvec select(ivec mask, uvec a, uvec b) noexcept { return mask ? a : b; }

/// The larger of each lane; where a lane of either is NaN, that of b.
KVPOP_INLINE vec max(vec a, vec b) noexcept { return a > b ? a : b; }
/// The smaller of each lane; where a lane of either is NaN, that of b.
KVPOP_INLINE vec min(vec a, vec b) noexcept { return a < b ? a : b; }

KVPOP_INLINE vec load(const float* p) noexcept {
  vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
KVPOP_INLINE void store(float* p, vec v) noexcept { __builtin_memcpy(p, &v, sizeof(v)); }

/// binary16 bits to floats, as float16 converts. Two multiply-free paths: F16C, else integer arithmetic.
KVPOP_INLINE vec widen_half(hvec h) noexcept {
#if KVPOP_SIMD_LANES == 16 && KVPOP_HAS_BUILTIN(__builtin_ia32_vcvtph2ps512_mask)
  using sixteen [[gnu::vector_size(32)]] = std::int16_t;
  return __builtin_ia32_vcvtph2ps512_mask(reinterpret_cast<sixteen>(h), vec{}, static_cast<unsigned short>(-1), 4);
#elif KVPOP_SIMD_LANES == 8 && defined(__F16C__) && KVPOP_HAS_BUILTIN(__builtin_ia32_vcvtph2ps256)
  using eight [[gnu::vector_size(16)]] = std::int16_t;
  return __builtin_ia32_vcvtph2ps256(reinterpret_cast<eight>(h));
#elif defined(__clang__) && KVPOP_SIMD_LANES == 8 && defined(__F16C__)
  using eight [[gnu::vector_size(16)]] = _Float16;
  return __builtin_convertvector(reinterpret_cast<eight>(h), vec);
#else
  const uvec bits = widen_bits(h);
  const uvec magnitude = bits & 0x7fffU;
  const uvec sign = (bits & 0x8000U) << 16;
  const vec subnormal = __builtin_convertvector(reinterpret_cast<ivec>(magnitude), vec) * 0x1p-24F;  // exact
  const uvec normal = (magnitude << 13) + 0x38000000U;
  const uvec infinity = (magnitude << 13) | 0x7f800000U;
  uvec result = select(magnitude < 0x400U, as_bits(subnormal), normal);
  result = select(magnitude >= 0x7c00U, infinity, result);
  result |= select(magnitude > 0x7c00U, broadcast_bits(0x400000U), uvec{});  // NaN becomes quiet
  return as_floats(result | sign);
#endif
}

/// Floats to binary16 bits, as float16 rounds.
KVPOP_INLINE hvec round_half(vec v) noexcept {
#if KVPOP_SIMD_LANES == 16 && KVPOP_HAS_BUILTIN(__builtin_ia32_vcvtps2ph512_mask)
  using sixteen [[gnu::vector_size(32)]] = std::int16_t;
  return reinterpret_cast<hvec>(__builtin_ia32_vcvtps2ph512_mask(
      v, 0, sixteen{}, static_cast<unsigned short>(-1)));  // 0: to nearest, ties to even
#elif KVPOP_SIMD_LANES == 8 && defined(__F16C__) && KVPOP_HAS_BUILTIN(__builtin_ia32_vcvtps2ph256)
  return reinterpret_cast<hvec>(__builtin_ia32_vcvtps2ph256(v, 0));
#else
  const uvec bits = as_bits(v);
  const uvec magnitude = bits & 0x7fffffffU;
  const uvec rebased = magnitude - 0x38000000U;
  uvec normal = (rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13;
  normal = select(normal > 0x7c00U, broadcast_bits(0x7c00U), normal);
  // One unit in the last place of 0.5 is 2^-24, the unit of binary16's subnormals: the addition does the rounding.
  const uvec subnormal = as_bits(as_floats(magnitude) + 0.5F) - 0x3f000000U;
  uvec result = select(magnitude < 0x38800000U, subnormal, normal);
  result = select(magnitude > 0x7f800000U, ((magnitude >> 13) & 0x3ffU) | 0x7e00U, result);
  return __builtin_convertvector(result | ((bits >> 16) & 0x8000U), hvec);
#endif
}

KVPOP_INLINE vec load(const float16* p) noexcept {
  hvec h;
  __builtin_memcpy(&h, p, sizeof(h));
  return widen_half(h);
}
KVPOP_INLINE void store(float16* p, vec v) noexcept {
  const hvec h = round_half(v);
  __builtin_memcpy(p, &h, sizeof(h));
}

KVPOP_INLINE vec load(const bfloat16* p) noexcept {
  hvec h;
  __builtin_memcpy(&h, p, sizeof(h));
  return as_floats(widen_bits(h) << 16);
}
/// In integers even where the CPU has the instruction: that one flushes subnormals.
KVPOP_INLINE void store(bfloat16* p, vec v) noexcept {
  const uvec bits = as_bits(v);
  const uvec rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const uvec result = select((bits & 0x7fffffffU) > 0x7f800000U, (bits >> 16) | 0x40U, rounded);
  const hvec h = __builtin_convertvector(result, hvec);
  __builtin_memcpy(p, &h, sizeof(h));
}

/// Any other scalar with scalar_traits: lane by lane.
template <class T>
KVPOP_INLINE vec load(const T* p) noexcept {
  vec v{};
  for (index_t i = 0; i < lanes; ++i) v[i] = scalar_traits<T>::to_float(p[i]);
  return v;
}
template <class T>
KVPOP_INLINE void store(T* p, vec v) noexcept {
  for (index_t i = 0; i < lanes; ++i) p[i] = scalar_traits<T>::from_float(v[i]);
}

/// The first n < lanes elements; the other lanes are zero and their memory is not touched.
template <class T>
KVPOP_INLINE vec load_first(const T* p, index_t n) noexcept {
  float padded[lanes] = {};
  for (index_t i = 0; i < n; ++i) padded[i] = scalar_traits<T>::to_float(p[i]);
  return load(padded);
}
template <class T>
KVPOP_INLINE void store_first(T* p, vec v, index_t n) noexcept {
  float padded[lanes];
  store(padded, v);
  for (index_t i = 0; i < n; ++i) p[i] = scalar_traits<T>::from_float(padded[i]);
}

/// The same with a compile-time count: one or two instructions.
template <index_t N>
KVPOP_INLINE vec load_part(const float* p) noexcept {
  vec v{};
  __builtin_memcpy(&v, p, N * sizeof(float));
  return v;
}
template <index_t N>
KVPOP_INLINE vec load_part(const float16* p) noexcept {
  hvec h{};
  __builtin_memcpy(&h, p, N * sizeof(h[0]));
  return widen_half(h);
}
template <index_t N>
KVPOP_INLINE vec load_part(const bfloat16* p) noexcept {
  hvec h{};
  __builtin_memcpy(&h, p, N * sizeof(h[0]));
  return as_floats(widen_bits(h) << 16);
}
template <index_t N, class T>
KVPOP_INLINE vec load_part(const T* p) noexcept {
  return load_first(p, N);
}

/// Sum of the lanes, always in the same order: halves are added until one lane is left.
KVPOP_INLINE float reduce_add(vec v) noexcept {
  using four [[gnu::vector_size(16)]] = float;
#if KVPOP_SIMD_LANES == 16
  using eight [[gnu::vector_size(32)]] = float;
  const eight a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                  __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const four b = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
#elif KVPOP_SIMD_LANES == 8
  const four b = __builtin_shufflevector(v, v, 0, 1, 2, 3) + __builtin_shufflevector(v, v, 4, 5, 6, 7);
#else
  const four b = v;
#endif
  const four c = b + __builtin_shufflevector(b, b, 2, 3, 2, 3);
  return c[0] + c[1];
}

/// The sums of the lanes of `lanes` vectors: lane i of the result is the sum of acc[i], always in the same order.
KVPOP_INLINE vec reduce_add_each(const vec* acc) noexcept {
  vec q[4];  // lane 4 * j + i of q[k]: four partial sums of acc[4 * j + k]
#if KVPOP_SIMD_LANES == 16
  KVPOP_UNROLL
  for (int k = 0; k < 4; ++k) {
    const vec a = acc[k], b = acc[k + 4], c = acc[k + 8], d = acc[k + 12];
    const vec x = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                  __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    const vec y = __builtin_shufflevector(c, d, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
                  __builtin_shufflevector(c, d, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    q[k] = __builtin_shufflevector(x, y, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
           __builtin_shufflevector(x, y, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  }
  const vec r0 = __builtin_shufflevector(q[0], q[2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                 __builtin_shufflevector(q[0], q[2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  const vec r1 = __builtin_shufflevector(q[1], q[3], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
                 __builtin_shufflevector(q[1], q[3], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  return __builtin_shufflevector(r0, r1, 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
         __builtin_shufflevector(r0, r1, 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
#elif KVPOP_SIMD_LANES == 8
  KVPOP_UNROLL
  for (int k = 0; k < 4; ++k) {
    q[k] = __builtin_shufflevector(acc[k], acc[k + 4], 0, 1, 2, 3, 8, 9, 10, 11) +
           __builtin_shufflevector(acc[k], acc[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  const vec r0 = __builtin_shufflevector(q[0], q[2], 0, 1, 8, 9, 4, 5, 12, 13) +
                 __builtin_shufflevector(q[0], q[2], 2, 3, 10, 11, 6, 7, 14, 15);
  const vec r1 = __builtin_shufflevector(q[1], q[3], 0, 1, 8, 9, 4, 5, 12, 13) +
                 __builtin_shufflevector(q[1], q[3], 2, 3, 10, 11, 6, 7, 14, 15);
  return __builtin_shufflevector(r0, r1, 0, 8, 2, 10, 4, 12, 6, 14) +
         __builtin_shufflevector(r0, r1, 1, 9, 3, 11, 5, 13, 7, 15);
#else
  for (int k = 0; k < 4; ++k) q[k] = acc[k];
  const vec r0 = __builtin_shufflevector(q[0], q[2], 0, 1, 4, 5) + __builtin_shufflevector(q[0], q[2], 2, 3, 6, 7);
  const vec r1 = __builtin_shufflevector(q[1], q[3], 0, 1, 4, 5) + __builtin_shufflevector(q[1], q[3], 2, 3, 6, 7);
  return __builtin_shufflevector(r0, r1, 0, 4, 2, 6) + __builtin_shufflevector(r0, r1, 1, 5, 3, 7);
#endif
}

/// Largest lane; NaN lanes are ignored or returned, as the order of lanes decides.
KVPOP_INLINE float reduce_max(vec v) noexcept {
  float padded[lanes];
  store(padded, v);
  float largest = padded[0];
  for (index_t i = 1; i < lanes; ++i) largest = padded[i] > largest ? padded[i] : largest;
  return largest;
}

/// Sum over i of a[i] * b[i], in an order that depends on n alone: four running sums of whole vectors, then the tail.
/// T is float or a cache's type (widened on the way).
template <class T>
inline float dot(const float* a, const T* b, index_t n) noexcept {
  vec s0{};
  vec s1{};
  vec s2{};
  vec s3{};
  index_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    s0 = fma(load(a + i), load(b + i), s0);
    s1 = fma(load(a + i + lanes), load(b + i + lanes), s1);
    s2 = fma(load(a + i + 2 * lanes), load(b + i + 2 * lanes), s2);
    s3 = fma(load(a + i + 3 * lanes), load(b + i + 3 * lanes), s3);
  }
  for (; i + lanes <= n; i += lanes) s0 = fma(load(a + i), load(b + i), s0);
  if (i < n) s1 = fma(load_first(a + i, n - i), load_first(b + i, n - i), s1);
  return reduce_add((s0 + s1) + (s2 + s3));
}

}  // namespace simd

KVPOP_NAMESPACE_END
