#include "kvpop/core/dtype.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "kvpop/core/simd.hpp"  // vector conversions, which must agree with the scalar ones

#if defined(__F16C__)
#include <immintrin.h>  // the hardware's own conversion
#endif

namespace {

using kvpop::bfloat16;
using kvpop::float16;

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
bool is_nan(std::uint32_t bits) { return (bits & 0x7fffffffU) > 0x7f800000U; }

// What a 16-bit format is, said in numbers: the oracle computes values and distances in double and never looks at how the
// library rounds. `mantissa` is the number of stored mantissa bits, `bias` that of the exponent.
struct format {
  int mantissa;
  int exponent;
  [[nodiscard]] int bias() const { return (1 << (exponent - 1)) - 1; }
  [[nodiscard]] bool special(std::uint32_t magnitude) const { return magnitude >> mantissa == (1U << exponent) - 1; }

  // The value of `magnitude` (no sign bit), where an infinity stands for the number that would come next.
  [[nodiscard]] double value(std::uint32_t magnitude) const {
    const auto e = static_cast<int>(magnitude >> mantissa);
    const double m = magnitude & ((1U << mantissa) - 1);
    if (e == 0) return std::ldexp(m, 1 - bias() - mantissa);
    return std::ldexp(m + std::ldexp(1.0, mantissa), e - bias() - mantissa);
  }

  // Round to nearest, ties to even, by searching the neighbours of a positive finite number.
  [[nodiscard]] std::uint32_t nearest(double x) const {
    const std::uint32_t infinity = ((1U << exponent) - 1) << mantissa;
    std::uint32_t low = 0;
    std::uint32_t high = infinity;
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (value(middle) <= x ? low : high) = middle;
    }
    const double below = x - value(low);
    const double above = value(high) - x;
    if (below == above) return (low & 1U) == 0 ? low : high;
    return below < above ? low : high;
  }

  // What the bits of a float must become, NaN included.
  [[nodiscard]] std::uint16_t expected(std::uint32_t single) const {
    const std::uint32_t sign = single >> 31 << 15;
    const std::uint32_t quiet = 1U << (mantissa - 1);
    const std::uint32_t infinity = ((1U << exponent) - 1) << mantissa;
    if (is_nan(single)) {
      const std::uint32_t payload = (single & 0x7fffffU) >> (23 - mantissa);
      return static_cast<std::uint16_t>(sign | infinity | quiet | payload);
    }
    if ((single & 0x7fffffffU) == 0x7f800000U) return static_cast<std::uint16_t>(sign | infinity);
    return static_cast<std::uint16_t>(sign | nearest(std::fabs(static_cast<double>(float_of(single)))));
  }
};

constexpr format half{10, 5};
constexpr format brain{7, 8};

// Every float that sits on, or next to, a place where rounding changes: each value, each midpoint, one unit either side.
std::vector<std::uint32_t> edges(const format& f) {
  std::vector<std::uint32_t> list;
  const std::uint32_t infinity = ((1U << f.exponent) - 1) << f.mantissa;
  for (std::uint32_t m = 0; m < infinity; ++m) {
    const double middle = (f.value(m) + f.value(m + 1)) / 2;  // the last one is the limit of overflow
    for (const double x : {f.value(m), middle}) {
      const std::uint32_t b = bits_of(static_cast<float>(x));
      for (const std::uint32_t near : {b - 1, b, b + 1}) {
        if (b == 0 && near > 1) continue;
        list.push_back(near);
        list.push_back(near | 0x80000000U);
      }
    }
  }
  for (const std::uint32_t b : {0x00000001U, 0x007fffffU, 0x00800000U, 0x33000000U, 0x33000001U, 0x32ffffffU,  // tiny
                                0x477fefffU, 0x477ff000U, 0x477ff001U, 0x7f7fffffU, 0x7f800000U,               // huge
                                0x7f800001U, 0x7f801fffU, 0x7f802000U, 0x7fbfffffU, 0x7fc00000U, 0x7fffffffU,  // NaN
                                0x7fc12345U, 0x7f8fffffU, 0x7f80ffffU, 0x7f810000U}) {
    list.push_back(b);
    list.push_back(b | 0x80000000U);
  }
  return list;
}

}  // namespace

TEST_CASE("both types are two trivially copyable bytes that can be built at compile time") {
  static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);
  static_assert(std::is_trivial_v<float16> && std::is_trivial_v<bfloat16>);
  static_assert(float16(1.0F).bits == 0x3c00 && float(float16(-2.5F)) == -2.5F);
  static_assert(bfloat16(1.0F).bits == 0x3f80 && float(bfloat16(-2.5F)) == -2.5F);
  static_assert(float16::from_bits(0x7bff) == 65504.0F && bfloat16::from_bits(0x7f7f) > 3.38e38F);
  static_assert(!std::is_convertible_v<float, float16> && !std::is_convertible_v<float, bfloat16>);
  static_assert(std::is_convertible_v<float16, float> && std::is_convertible_v<bfloat16, float>);
  CHECK(std::string(kvpop::scalar_traits<float>::name) == "f32");
  CHECK(std::string(kvpop::scalar_traits<float16>::name) == "f16");
  CHECK(std::string(kvpop::scalar_traits<bfloat16>::name) == "bf16");
}

TEST_CASE("every one of the 65,536 values becomes the float it stands for, and comes back") {
  int wrong = 0;
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const auto bits = static_cast<std::uint16_t>(b);
    const bool negative = b >= 0x8000U;
    const float h = float16::from_bits(bits);
    const float f = bfloat16::from_bits(bits);
    if (half.special(b & 0x7fffU)) {
      const std::uint32_t payload = (b & 0x3ffU) << 13;
      const std::uint32_t want = (negative ? 0xff800000U : 0x7f800000U) | payload | (payload != 0 ? 0x400000U : 0U);
      wrong += bits_of(h) != want;
      wrong += float16(h).bits != (payload != 0 ? (b | 0x200U) : b);
    } else {
      wrong += std::fabs(static_cast<double>(h)) != half.value(b & 0x7fffU) || std::signbit(h) != negative;
      wrong += float16(h).bits != b;
    }
    wrong += bits_of(f) != b << 16;
    if (!brain.special(b & 0x7fffU)) {
      wrong += std::fabs(static_cast<double>(f)) != brain.value(b & 0x7fffU) || std::signbit(f) != negative;
    }
    wrong += bfloat16(f).bits != (is_nan(b << 16) ? (b | 0x40U) : b);
  }
  CHECK(wrong == 0);
}

TEST_CASE("from float: every midpoint, one unit either side of it, overflow, subnormals and NaN") {
  int wrong = 0;
  for (const std::uint32_t b : edges(half)) {
    if (float16(float_of(b)).bits != half.expected(b)) {
      if (++wrong < 5) MESSAGE("float16 of ", b, " is ", float16(float_of(b)).bits, ", not ", half.expected(b));
    }
  }
  for (const std::uint32_t b : edges(brain)) {
    if (bfloat16(float_of(b)).bits != brain.expected(b)) {
      if (++wrong < 5) MESSAGE("bfloat16 of ", b, " is ", bfloat16(float_of(b)).bits, ", not ", brain.expected(b));
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("vectors convert to the same bits as scalars") {
  namespace simd = kvpop::simd;
  constexpr auto lanes = static_cast<std::size_t>(simd::lanes);
  for (const format& f : {half, brain}) {
    std::vector<std::uint32_t> list = edges(f);
    list.resize((list.size() + lanes - 1) / lanes * lanes, 0x3f800000U);
    int wrong = 0;
    for (std::size_t i = 0; i < list.size(); i += lanes) {
      float x[lanes];
      for (std::size_t j = 0; j < lanes; ++j) std::memcpy(&x[j], &list[i + j], 4);
      float16 h[lanes];
      bfloat16 b[lanes];
      simd::store(h, simd::load(x));
      simd::store(b, simd::load(x));
      for (std::size_t j = 0; j < lanes; ++j) {
        wrong += h[j].bits != float16(float_of(list[i + j])).bits;
        wrong += b[j].bits != bfloat16(float_of(list[i + j])).bits;
      }
    }
    CHECK(wrong == 0);
  }
  int wrong = 0;
  for (std::uint32_t first = 0; first < 65536; first += static_cast<std::uint32_t>(lanes)) {
    float16 h[lanes];
    bfloat16 b[lanes];
    for (std::size_t j = 0; j < lanes; ++j) {
      h[j].bits = static_cast<std::uint16_t>(first + j);
      b[j].bits = static_cast<std::uint16_t>(first + j);
    }
    float from_half[lanes];
    float from_brain[lanes];
    simd::store(from_half, simd::load(h));
    simd::store(from_brain, simd::load(b));
    for (std::size_t j = 0; j < lanes; ++j) {
      wrong += bits_of(from_half[j]) != bits_of(h[j]);
      wrong += bits_of(from_brain[j]) != bits_of(b[j]);
    }
  }
  CHECK(wrong == 0);
}

#if defined(__F16C__)
TEST_CASE("float16 is what F16C computes") {
  int wrong = 0;
  for (const std::uint32_t b : edges(half)) {
    const __m128i converted = _mm_cvtps_ph(_mm_castsi128_ps(_mm_set1_epi32(static_cast<int>(b))), 0);
    wrong += float16(float_of(b)).bits != static_cast<std::uint16_t>(_mm_extract_epi16(converted, 0));
  }
  for (std::uint32_t b = 0; b < 65536; ++b) {
    const __m128 widened = _mm_cvtph_ps(_mm_set1_epi16(static_cast<short>(b)));
    const auto bits = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm_castps_si128(widened)));
    wrong += bits_of(float16::from_bits(static_cast<std::uint16_t>(b))) != bits;
  }
  CHECK(wrong == 0);
}
#endif

#if defined(__AVX512BF16__) && defined(__AVX512VL__)
TEST_CASE("bfloat16 is what VCVTNEPS2BF16 computes, but for the subnormals that it flushes") {
  int wrong = 0;
  for (const std::uint32_t b : edges(brain)) {
    const std::uint32_t magnitude = b & 0x7fffffffU;
    if (magnitude != 0 && magnitude < 0x00800000U) continue;
    const __m128bh converted = _mm256_cvtneps_pbh(_mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(b))));
    std::uint16_t bits = 0;
    std::memcpy(&bits, &converted, 2);
    wrong += bfloat16(float_of(b)).bits != bits;
  }
  CHECK(wrong == 0);
}
#endif
