#pragma once

#include <bit>      // bit_cast, countl_zero: conversions are decided on bits
#include <cstdint>  // exact widths

#include "kvpop/core/config.hpp"  // namespace

KVPOP_NAMESPACE_BEGIN

/// IEEE binary16 as its bits: what `__half`, `_Float16` and F16C store.
///
/// From float: round to nearest, ties to even; overflow gives infinity, subnormals are kept, a NaN becomes quiet and
/// keeps its sign and upper payload (as VCVTPS2PH does). To float: exact, a signalling NaN becomes quiet. All on bits,
/// so neither -ffast-math nor flush-to-zero changes a result. Comparisons go through float, as for `__half`.
struct float16 {
  std::uint16_t bits;

  float16() = default;
  explicit constexpr float16(float value) noexcept : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  constexpr operator float() const noexcept { return std::bit_cast<float>(widen(bits)); }

  /// The value stored as `bits`.
  static constexpr float16 from_bits(std::uint16_t bits) noexcept {
    float16 value{};
    value.bits = bits;
    return value;
  }

 private:
  static constexpr std::uint16_t round(std::uint32_t single) noexcept {
    const std::uint32_t sign = (single >> 16) & 0x8000U;
    const std::uint32_t magnitude = single & 0x7fffffffU;
    if (magnitude > 0x7f800000U) {  // NaN
      return static_cast<std::uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    }
    if (magnitude >= 0x38800000U) {  // at least 2^-14, the smallest normal; infinity included
      const std::uint32_t rebased = magnitude - 0x38000000U;
      const std::uint32_t rounded = (rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13;
      return static_cast<std::uint16_t>(sign | (rounded > 0x7c00U ? 0x7c00U : rounded));
    }
    const std::uint32_t exponent = magnitude >> 23;
    if (exponent < 102U) return static_cast<std::uint16_t>(sign);  // below half of the smallest subnormal
    const std::uint32_t shift = 126U - exponent;                   // 14 .. 24: brings the unit to 2^-24
    const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    const std::uint32_t kept = mantissa >> shift;
    const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
    const std::uint32_t half = 1U << (shift - 1U);
    const bool up = rest > half || (rest == half && (kept & 1U) != 0U);
    return static_cast<std::uint16_t>(sign | (kept + (up ? 1U : 0U)));
  }

  static constexpr std::uint32_t widen(std::uint16_t half) noexcept {
    const std::uint32_t sign = (half & 0x8000U) * 0x10000U;
    const std::uint32_t exponent = (half >> 10) & 0x1fU;
    const std::uint32_t mantissa = half & 0x3ffU;
    if (exponent == 0x1fU) return sign | 0x7f800000U | (mantissa << 13) | (mantissa != 0U ? 0x400000U : 0U);
    if (exponent != 0U) return sign | ((exponent + 112U) << 23) | (mantissa << 13);
    if (mantissa == 0U) return sign;
    const auto shift =
        static_cast<std::uint32_t>(std::countl_zero(mantissa)) - 21U;  // subnormal: to 1.f * 2^-(14 + shift)
    return sign | ((113U - shift) << 23) | (((mantissa << shift) & 0x3ffU) << 13);
  }
};

/// bfloat16 as its bits: the upper half of a float, what `__nv_bfloat16` and `std::bfloat16_t` store.
///
/// From float: round to nearest, ties to even, subnormals kept (the AVX-512 instruction flushes them, the format does
/// not); a NaN becomes quiet and keeps its sign and upper payload. To float: exact, bits unchanged. All on bits.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  explicit constexpr bfloat16(float value) noexcept : bits(round(std::bit_cast<std::uint32_t>(value))) {}
  constexpr operator float() const noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  /// The value stored as `bits`.
  static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 value{};
    value.bits = bits;
    return value;
  }

 private:
  static constexpr std::uint16_t round(std::uint32_t single) noexcept {
    if ((single & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((single >> 16) | 0x40U);  // NaN
    return static_cast<std::uint16_t>((single + 0x7fffU + ((single >> 16) & 1U)) >> 16);
  }
};

/// What the library asks of a scalar type that a cache stores: a name and conversions from and to float.
/// Specialise it for a type of your own.
template <class T>
struct scalar_traits;

template <>
struct scalar_traits<float> {
  static constexpr const char* name = "f32";
  static constexpr float to_float(float value) noexcept { return value; }
  static constexpr float from_float(float value) noexcept { return value; }
};

template <>
struct scalar_traits<float16> {
  static constexpr const char* name = "f16";
  static constexpr float to_float(float16 value) noexcept { return value; }
  static constexpr float16 from_float(float value) noexcept { return float16(value); }
};

template <>
struct scalar_traits<bfloat16> {
  static constexpr const char* name = "bf16";
  static constexpr float to_float(bfloat16 value) noexcept { return value; }
  static constexpr bfloat16 from_float(float value) noexcept { return bfloat16(value); }
};

KVPOP_NAMESPACE_END
