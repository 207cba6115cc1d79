#pragma once

#include <bit>      // std::bit_cast
#include <cmath>    // std::fma
#include <cstdint>  // std::uint32_t

#include "kvpop/core/config.hpp"  // KVPOP_NAMESPACE_BEGIN, index_t

/// Priorities: scores with the decay of their head folded in (KVpop, arXiv 2607.05061; docs/method.md section 2).

KVPOP_NAMESPACE_BEGIN

/// The exact double of a float, denormals included.
///
/// Programs linked with -ffast-math run with denormals read as zero; the hardware conversion would lose them. A denormal
/// float is an integer times 2^-149, and both that integer and the product are normal doubles.
inline double widen(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude >= 0x00800000U || magnitude == 0) return static_cast<double>(value);
  const double denormal = static_cast<double>(static_cast<std::int32_t>(magnitude)) * 0x1p-149;
  return (bits >> 31) != 0 ? -denormal : denormal;
}

/// Priority of a token: `score - position * log_gamma`, rounded once to double.
///
/// At query q the effective score is `score + (q - position) * log_gamma`; `q * log_gamma` is common to all tokens of a
/// head, so this static number orders them as the effective score does, at every q (docs/method.md section 2).
///
/// \param score      what the scorer returned for the token
/// \param log_gamma  natural logarithm of the decay of the head, <= 0; 0 for no decay
/// \param position   absolute position of the token, 0 <= position
///
/// Determinism: the same bits from every compiler, flag and instruction set (the sign of a zero and the payload of a NaN
/// aside, which order_key ignores). std::fma rounds once by definition. Where a compiler may replace it all the same
/// (-ffast-math), nothing changes below position 2^29: the position has at most 29 significant bits and log_gamma 24, so
/// their product fits the 53 bits of a double exactly, and product and difference round once too. No term is denormal:
/// all of them are multiples of 2^-149.
inline double fold_decay(float score, float log_gamma, index_t position) noexcept {
  return std::fma(-static_cast<double>(position), widen(log_gamma), widen(score));
}

KVPOP_NAMESPACE_END
