#pragma once

#include <cstdint>

#include "kvpop/core/config.hpp"  // index_t

KVPOP_NAMESPACE_BEGIN

/// Drops tokens at random: the control that any scorer must beat.
///
/// The score is a pure function of (seed, layer, head, position), so it needs no state, and is the same on every machine,
/// in every batch row and for every chunking. Generator: each of the four words is absorbed by `h = mix(h + word + c)`
/// with c = 0x9e3779b97f4a7c15 and SplitMix64's finaliser `mix`; the top 24 bits of the last h, over 2^24, are the score.
class random_scorer {
 public:
  /// `layer` tells the layers of a model apart; a scorer is a value for one of them.
  explicit constexpr random_scorer(std::uint64_t seed, index_t layer = 0) noexcept
      : key_(absorb(absorb(0, seed), static_cast<std::uint64_t>(layer))) {}

  /// Uniform on {0, 1, .. 2^24 - 1} / 2^24.
  [[nodiscard]] constexpr float score(index_t head, index_t position, const float* /*x*/,
                                      const float* /*memory*/) const noexcept {
    const std::uint64_t h =
        absorb(absorb(key_, static_cast<std::uint64_t>(head)), static_cast<std::uint64_t>(position));
    return static_cast<float>(h >> 40U) * 0x1p-24F;
  }

 private:
  static constexpr std::uint64_t absorb(std::uint64_t h, std::uint64_t word) noexcept {
    h += word + 0x9e3779b97f4a7c15U;
    h = (h ^ (h >> 30U)) * 0xbf58476d1ce4e5b9U;
    h = (h ^ (h >> 27U)) * 0x94d049bb133111ebU;
    return h ^ (h >> 31U);
  }

  std::uint64_t key_;
};

KVPOP_NAMESPACE_END
