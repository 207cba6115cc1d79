#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace qwen3 {

/// A ratio with its 95 % interval: what a method keeps of the full model's answers, or a mean over positions.
struct ratio_estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// sum(above) / sum(below) over lines, with a paired bootstrap interval: lines are drawn anew `resamples` times,
/// both sums over the same lines, and the 2.5 and 97.5 per cent points of the ratios taken. Draws whose sum below is 0 are
/// left out. Empty when that of all lines is 0. Deterministic: the generator is counted and seeded.
std::optional<ratio_estimate> paired_ratio(std::span<const double> above, std::span<const double> below,
                                           int resamples = 10'000, std::uint64_t seed = 1);

}  // namespace qwen3
