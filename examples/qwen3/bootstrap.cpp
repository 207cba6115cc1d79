#include "bootstrap.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace qwen3 {

namespace {

// The value below which a share of the sorted values lies, by linear interpolation.
double quantile(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(at));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], at - std::floor(at));
}

}  // namespace

std::optional<retention_estimate> paired_retention(std::span<const std::int64_t> correct,
                                                   std::span<const std::int64_t> reference, int resamples,
                                                   std::uint64_t seed) {
  const auto sum = [](std::span<const std::int64_t> v) { return std::accumulate(v.begin(), v.end(), std::int64_t{0}); };
  const std::int64_t all = sum(reference);
  if (all == 0) return std::nullopt;
  retention_estimate result;
  result.value = static_cast<double>(sum(correct)) / static_cast<double>(all);

  // mt19937_64 is the same everywhere; the standard's distributions are not. The modulus is biased by 2^-50.
  std::mt19937_64 generator(seed);
  std::vector<double> ratios;
  for (int i = 0; i < resamples; ++i) {
    std::int64_t top = 0, bottom = 0;
    for (std::size_t j = 0; j < reference.size(); ++j) {
      const std::size_t line = generator() % reference.size();
      top += correct[line];
      bottom += reference[line];
    }
    if (bottom > 0) ratios.push_back(static_cast<double>(top) / static_cast<double>(bottom));
  }
  std::sort(ratios.begin(), ratios.end());
  result.low = ratios.empty() ? result.value : quantile(ratios, 0.025);
  result.high = ratios.empty() ? result.value : quantile(ratios, 0.975);
  return result;
}

}  // namespace qwen3
