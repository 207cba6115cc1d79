#pragma once

#include <cstdint>

#include "kvpop/core/config.hpp"  // index_t

KVPOP_NAMESPACE_BEGIN

/// Random numbers that are the same for every compiler and thread count: splitmix64 (Steele, Lea and Flood 2014), whose
/// whole state is one number. What it draws can be saved and resumed.
class random_stream {
 public:
  explicit constexpr random_stream(std::uint64_t state) noexcept : state_(state) {}

  /// A stream for one purpose of many: the same for the same seed and numbers, whatever else was drawn.
  [[nodiscard]] static constexpr random_stream of(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0) noexcept {
    random_stream s(seed);
    random_stream t(s.bits() ^ (a * 0x9e3779b97f4a7c15U + 1));
    return random_stream(t.bits() ^ (b * 0xbf58476d1ce4e5b9U + 1));
  }

  constexpr std::uint64_t bits() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// Uniform in [0, 1).
  constexpr double uniform() noexcept { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

  /// Uniform in lo .. hi, both included. Precondition: lo <= hi, hi - lo < 2^53.
  constexpr index_t integer(index_t lo, index_t hi) noexcept {
    return lo + static_cast<index_t>(uniform() * static_cast<double>(hi - lo + 1));
  }

  [[nodiscard]] constexpr std::uint64_t state() const noexcept { return state_; }

 private:
  std::uint64_t state_;
};

/// Moves `wanted` elements, chosen uniformly without replacement, to the front; all of them when there are no more.
/// Returns how many stand there. O(wanted). Which ones depends on the stream alone.
template <class T>
index_t sample(random_stream& random, T* elements, index_t count, index_t wanted) noexcept {
  const index_t taken = wanted < count ? wanted : count;
  for (index_t i = 0; i < taken; ++i) {
    const index_t j = random.integer(i, count - 1);
    const T kept = elements[i];
    elements[i] = elements[j];
    elements[j] = kept;
  }
  return taken;
}

KVPOP_NAMESPACE_END
