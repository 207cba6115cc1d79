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

std::optional<ratio_estimate> paired_ratio(std::span<const double> above, std::span<const double> below, int resamples,
                                           std::uint64_t seed) {
  const auto sum = [](std::span<const double> v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  const double all = sum(below);
  if (all == 0) return std::nullopt;
  ratio_estimate result;
  result.value = sum(above) / all;

  // mt19937_64 is the same everywhere; the standard's distributions are not. The modulus is biased by 2^-50.
  std::mt19937_64 generator(seed);
  std::vector<double> ratios;
  for (int i = 0; i < resamples; ++i) {
    double top = 0, bottom = 0;
    for (std::size_t j = 0; j < below.size(); ++j) {
      const std::size_t line = generator() % below.size();
      top += above[line];
      bottom += below[line];
    }
    if (bottom > 0) ratios.push_back(top / bottom);
  }
  std::sort(ratios.begin(), ratios.end());
  result.low = ratios.empty() ? result.value : quantile(ratios, 0.025);
  result.high = ratios.empty() ? result.value : quantile(ratios, 0.975);
  return result;
}

}  // namespace qwen3
