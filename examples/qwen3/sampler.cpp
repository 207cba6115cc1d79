#include "sampler.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include "distribution.hpp"  // first_choice
#include "error.hpp"         // usage_error

namespace qwen3 {

sampler::sampler(const sampling& parameters) : parameters_(parameters), generator_(parameters.seed) {
  const double temperature = parameters.temperature, top_p = parameters.top_p;
  if (!std::isfinite(temperature) || temperature < 0)
    throw usage_error("temperature is " + std::to_string(temperature) + "; it must be at least 0 and finite");
  if (parameters.top_k < 0)
    throw usage_error("top_k is " + std::to_string(parameters.top_k) + "; it must be at least 0 (0: all)");
  if (!(top_p > 0 && top_p <= 1))
    throw usage_error("top_p is " + std::to_string(top_p) + "; it must be above 0 and at most 1");
}

std::int32_t sampler::operator()(std::span<const float> logits) {
  if (parameters_.temperature > 0) gather(logits);
  if (parameters_.temperature == 0 || candidates_.empty()) return static_cast<std::int32_t>(first_choice(logits));
  const std::size_t kept = weigh();
  double total = 0;
  for (std::size_t i = 0; i < kept; ++i) total += weights_[i];
  double left = uniform() * total;
  for (std::size_t i = 0; i + 1 < kept; ++i) {
    left -= weights_[i];
    if (left < 0) return candidates_[i].token;
  }
  return candidates_[kept - 1].token;  // what rounding left over
}

// The candidates after top_k; likeliest first where top_k or top_p look at the order.
void sampler::gather(std::span<const float> logits) {
  candidates_.clear();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool possible = logits[i] > -std::numeric_limits<float>::infinity();  // nor is NaN
    if (possible) candidates_.push_back({logits[i], static_cast<std::int32_t>(i)});
  }
  const auto likelier = [](const candidate& a, const candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  };
  const std::int64_t k = parameters_.top_k;
  if (k > 0 && k < std::ssize(candidates_)) {
    std::partial_sort(candidates_.begin(), candidates_.begin() + k, candidates_.end(), likelier);
    candidates_.resize(static_cast<std::size_t>(k));
  } else if (parameters_.top_p < 1) {
    std::sort(candidates_.begin(), candidates_.end(), likelier);
  }
}

// Fills the weights and returns how many candidates top_p keeps, at least one.
std::size_t sampler::weigh() {
  weights_.clear();
  double total = 0;
  double largest = -std::numeric_limits<double>::infinity();
  for (const candidate& one : candidates_) largest = std::max(largest, static_cast<double>(one.logit));
  for (const candidate& one : candidates_) {
    const double logit = static_cast<double>(one.logit);
    // Equal ones apart, so that infinity - infinity does not come up.
    weights_.push_back(logit == largest ? 1.0 : std::exp((logit - largest) / parameters_.temperature));
    total += weights_.back();
  }
  double reached = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    reached += weights_[i];
    if (reached >= parameters_.top_p * total) return i + 1;
  }
  return weights_.size();
}

// In [0, 1), the upper 53 bits.
double sampler::uniform() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

}  // namespace qwen3
