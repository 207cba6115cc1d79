#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace qwen3 {

/// A share of the full model's with its 95 % interval.
struct retention_estimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// sum(correct) / sum(reference) over lines, with a paired bootstrap interval: lines are drawn anew `resamples` times,
/// both sums over the same lines, and the 2.5 and 97.5 per cent points of the ratios taken. Draws in which the reference
/// has nothing right are left out. Empty when sum(reference) is 0. Deterministic: the generator is counted and seeded.
std::optional<retention_estimate> paired_retention(std::span<const std::int64_t> correct,
                                                   std::span<const std::int64_t> reference, int resamples = 10'000,
                                                   std::uint64_t seed = 1);

}  // namespace qwen3
