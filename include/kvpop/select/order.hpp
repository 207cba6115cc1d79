#pragma once

#include <bit>      // std::bit_cast
#include <cstdint>  // std::uint64_t
#include <limits>   // never

#include "kvpop/core/config.hpp"  // KVPOP_NAMESPACE_BEGIN, index_t

/// The one total order of tokens (docs/method.md section 2, "Ties"): what is kept longer, decided on bits.
///
/// Everything in select/ compares through this file. Comparisons of doubles are avoided altogether, because a consumer
/// may compile with -ffast-math, where comparing with an infinity or a NaN means nothing and denormals read as zero.

KVPOP_NAMESPACE_BEGIN

/// The death time of a token that is never evicted.
inline constexpr index_t never = std::numeric_limits<index_t>::max();

/// Key of a priority that is given by its IEEE 754 binary64 bits; see order_key.
///
/// \return 0 for NaN of any sign and payload; -inf gives the smallest other key, +inf the largest; -0 and +0 are equal.
constexpr std::uint64_t order_key_of_bits(std::uint64_t bits) noexcept {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  constexpr std::uint64_t infinity = std::uint64_t{0x7ff} << 52;
  const std::uint64_t magnitude = bits & ~sign;
  const bool is_number = magnitude <= infinity;
  const bool is_negative = bits > sign;  // -0 is not: it takes the key of +0
  const std::uint64_t key = is_negative ? sign - magnitude : sign + magnitude;
  return is_number ? key : 0;
}

/// Key of a priority: a token with the larger key is kept longer; equal keys are decided by the position (see rank).
///
/// NaN (any sign, any payload) lies below everything, -infinity included; -0 equals +0; the infinities and the denormals
/// are ordinary numbers. Same result under every floating-point flag and mode.
/// By reference on purpose: a compiler that was told there are no NaNs may believe that of a value, not of memory.
constexpr std::uint64_t order_key(const double& priority) noexcept {
  return order_key_of_bits(std::bit_cast<std::uint64_t>(priority));
}

/// Place of a token in the total order.
struct rank {
  std::uint64_t key;  ///< order_key of its priority
  index_t position;   ///< absolute position; distinct among the tokens of a head

  friend constexpr bool operator==(const rank&, const rank&) noexcept = default;
};

/// Rank of a token from its priority and its absolute position.
constexpr rank rank_of(const double& priority, index_t position) noexcept { return {order_key(priority), position}; }

/// Whether `a` is kept longer than `b`: the larger key, and among equal keys the later position.
///
/// A strict total order over distinct positions. Determinism: integer arithmetic alone.
constexpr bool outranks(const rank& a, const rank& b) noexcept {
  // Without a branch: in a heap of random priorities it would be mispredicted every other time.
  return (a.key > b.key) | ((a.key == b.key) & (a.position > b.position));
}

KVPOP_NAMESPACE_END
