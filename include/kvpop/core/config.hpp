#pragma once

#include <cstdint>

#include "kvpop/version.hpp"  // KVPOP_VERSION_*

/// @file
/// The library's only configuration: its namespace, its index type and its inlining hint.
///
/// Every name lives in `kvpop::` inside an inline ABI namespace that spells the version, the instruction set and the
/// semantics-changing flags this translation unit was compiled with. Two translation units built with different -march
/// flags, or two shared libraries that vendor different versions, therefore never share an inline function: the linker
/// cannot hand the AVX-512 body of one to the SSE2 caller of the other.

// One digit a feature, in the order written at KVPOP_ABI_ISA below. A compiler may emit any of these on its own.
#if defined(__SSE3__) && defined(__SSSE3__)
#define KVPOP_ABI_SSSE3 1
#else
#define KVPOP_ABI_SSSE3 0
#endif
#if defined(__SSE4_1__) && defined(__SSE4_2__)
#define KVPOP_ABI_SSE4 1
#else
#define KVPOP_ABI_SSE4 0
#endif
#if defined(__AVX2__)
#define KVPOP_ABI_AVX 2
#elif defined(__AVX__)
#define KVPOP_ABI_AVX 1
#else
#define KVPOP_ABI_AVX 0
#endif
#if defined(__FMA__)
#define KVPOP_ABI_FMA 1
#else
#define KVPOP_ABI_FMA 0
#endif
#if defined(__F16C__)
#define KVPOP_ABI_F16C 1
#else
#define KVPOP_ABI_F16C 0
#endif
#if defined(__BMI2__)
#define KVPOP_ABI_BMI 2
#elif defined(__BMI__)
#define KVPOP_ABI_BMI 1
#else
#define KVPOP_ABI_BMI 0
#endif
#if defined(__MOVBE__)
#define KVPOP_ABI_MOVBE 1
#else
#define KVPOP_ABI_MOVBE 0
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define KVPOP_ABI_AVX512 2
#elif defined(__AVX512F__)
#define KVPOP_ABI_AVX512 1
#else
#define KVPOP_ABI_AVX512 0
#endif
#if defined(__AVX512VBMI__) || defined(__AVX512VBMI2__) || defined(__AVX512IFMA__) || defined(__AVX512BITALG__) || \
    defined(__AVX512VPOPCNTDQ__)
#define KVPOP_ABI_AVX512X 1
#else
#define KVPOP_ABI_AVX512X 0
#endif
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define KVPOP_ABI_VNNI 1
#else
#define KVPOP_ABI_VNNI 0
#endif
#if defined(__AVX512BF16__)
#define KVPOP_ABI_BF16 1
#else
#define KVPOP_ABI_BF16 0
#endif
#if defined(__AVX512FP16__)
#define KVPOP_ABI_FP16 1
#else
#define KVPOP_ABI_FP16 0
#endif
#if defined(__ARM_FEATURE_SVE2)
#define KVPOP_ABI_ARM 3
#elif defined(__ARM_FEATURE_SVE)
#define KVPOP_ABI_ARM 2
#elif defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC) || defined(__ARM_FEATURE_BF16)
#define KVPOP_ABI_ARM 1
#else
#define KVPOP_ABI_ARM 0
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#define KVPOP_ABI_FAST 1
#else
#define KVPOP_ABI_FAST 0
#endif
#if defined(__cpp_exceptions)
#define KVPOP_ABI_THROWS 1
#else
#define KVPOP_ABI_THROWS 0
#endif

#define KVPOP_ABI_PASTE(v1, v2, v3, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) \
  v##v1##_##v2##_##v3##_##a##b##c##d##e##f##g##h##i##j##k##l##m##n##o
#define KVPOP_ABI_EXPAND(v1, v2, v3, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) \
  KVPOP_ABI_PASTE(v1, v2, v3, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
/// The ABI namespace: v<major>_<minor>_<patch>_<one digit a feature>.
#define KVPOP_ABI_NAMESPACE                                                                                          \
  KVPOP_ABI_EXPAND(KVPOP_VERSION_MAJOR, KVPOP_VERSION_MINOR, KVPOP_VERSION_PATCH, KVPOP_ABI_SSSE3, KVPOP_ABI_SSE4,   \
                   KVPOP_ABI_AVX, KVPOP_ABI_FMA, KVPOP_ABI_F16C, KVPOP_ABI_BMI, KVPOP_ABI_MOVBE, KVPOP_ABI_AVX512,   \
                   KVPOP_ABI_AVX512X, KVPOP_ABI_VNNI, KVPOP_ABI_BF16, KVPOP_ABI_FP16, KVPOP_ABI_ARM, KVPOP_ABI_FAST, \
                   KVPOP_ABI_THROWS)

#define KVPOP_NAMESPACE_BEGIN \
  namespace kvpop {           \
  inline namespace KVPOP_ABI_NAMESPACE {
#define KVPOP_NAMESPACE_END \
  }                         \
  }

/// For the few functions whose cost is a call: register-blocked kernels and their vector helpers.
#define KVPOP_INLINE inline __attribute__((always_inline))
/// For error paths: kept out of the hot code and out of the inliner's budget.
#define KVPOP_COLD __attribute__((cold, noinline))

KVPOP_NAMESPACE_BEGIN

/// Counts, extents, strides and absolute positions. Signed, so that differences are safe.
using index_t = std::int64_t;

KVPOP_NAMESPACE_END
