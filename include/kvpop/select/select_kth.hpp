#pragma once

#include <bit>      // std::bit_width
#include <cstdint>  // std::uint64_t

#include "kvpop/core/config.hpp"  // index_t

KVPOP_NAMESPACE_BEGIN

/// The k-th largest of some keys.
struct kth_key {
  std::uint64_t key;
  index_t among_best;  ///< how many keys equal to it are among the k largest, at least 1
  index_t equal;       ///< how many keys equal to it there are
};

/// The largest digit that select_kth looks at, and how many bins that takes.
inline constexpr unsigned select_digit_bits = 11;
inline constexpr index_t select_bins = index_t{1} << select_digit_bits;

/// Some bits of a key, as a number.
struct key_digit {
  unsigned shift;
  std::uint64_t mask;

  [[nodiscard]] std::uint64_t of(std::uint64_t key) const noexcept { return (key >> shift) & mask; }
};

/// The bits in which n >= 1 keys differ.
inline std::uint64_t differing_bits(const std::uint64_t* keys, index_t n) noexcept {
  std::uint64_t differing = 0;
  for (index_t i = 1; i < n; ++i) {
    differing |= keys[i] ^ keys[0];
  }
  return differing;
}

/// Counts how many keys have each value of the digit: bins [mask + 1], then as many that it needs itself.
inline void count_digits(const std::uint64_t* keys, index_t n, key_digit digit, std::uint32_t* bins) noexcept {
  // Two sets of bins, so that a run of equal digits does not wait for its own last store.
  const std::uint64_t set = digit.mask + 1;
  for (std::uint64_t bin = 0; bin < 2 * set; ++bin) {
    bins[bin] = 0;
  }
  for (index_t i = 0; i + 1 < n; i += 2) {
    ++bins[digit.of(keys[i])];
    ++bins[set + digit.of(keys[i + 1])];
  }
  if (n % 2 != 0) {
    ++bins[digit.of(keys[n - 1])];
  }
  for (std::uint64_t bin = 0; bin < set; ++bin) {
    bins[bin] += bins[set + bin];
  }
}

/// Moves the keys of one digit to the front and returns their number.
inline index_t keep_digit(std::uint64_t* keys, index_t n, key_digit digit, std::uint64_t wanted) noexcept {
  index_t kept = 0;
  for (index_t i = 0; i < n; ++i) {
    const std::uint64_t key = keys[i];
    keys[kept] = key;
    kept += index_t{digit.of(key) == wanted};
  }
  return kept;
}

/// Finds the k-th largest of n keys, most significant digit first: only the keys of the digit that holds it go on.
///
/// A round starts at the highest bit in which the remaining keys differ: common prefixes cost nothing and equal keys one
/// pass. Each round settles its digit's bits for good, so that there is no bad input.
///
/// \param keys  [n] destroyed
/// \param n     1 <= n < 2^32
/// \param k     1 <= k <= n
/// \param bins  [2 * select_bins] scratch
///
/// Complexity: O(n): three passes over the keys that are left, at most 11 rounds. Allocates: no.
inline kth_key select_kth(std::uint64_t* keys, index_t n, index_t k, std::uint32_t* bins) noexcept {
  constexpr index_t few = 1024;  // then it is the bins that cost
  constexpr unsigned few_digit_bits = 6;
  for (std::uint64_t differing = differing_bits(keys, n); differing != 0; differing = differing_bits(keys, n)) {
    const auto highest = static_cast<unsigned>(std::bit_width(differing));
    const unsigned bits = n < few ? few_digit_bits : select_digit_bits;
    const unsigned shift = highest > bits ? highest - bits : 0;
    const key_digit digit{shift, (std::uint64_t{1} << (highest - shift)) - 1};
    count_digits(keys, n, digit, bins);
    std::uint64_t bin = digit.mask;
    for (; k > bins[bin]; --bin) {
      k -= bins[bin];
    }
    n = keep_digit(keys, n, digit, bin);
  }
  return {keys[0], k, n};
}

KVPOP_NAMESPACE_END
