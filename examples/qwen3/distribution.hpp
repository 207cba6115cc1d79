#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvpop/core/context.hpp"  // host_context

namespace qwen3 {

/// The index of the largest logit; of equal ones the first.
std::int64_t first_choice(std::span<const float> logits);

/// Next-token distributions of the full model for some tokens, prepared to be compared with those of other methods.
class reference_distributions {
 public:
  /// logits [rows, vocabulary] are taken over.
  void set(const kvpop::host_context& ctx, std::vector<float>& logits, std::int64_t rows, std::int64_t vocabulary);

  std::int64_t choice(std::int64_t row) const { return choices_[static_cast<std::size_t>(row)]; }

  /// -log p of a token under the full model's distribution of a row, in nats.
  double loss(std::int64_t row, std::int32_t token) const;

  /// KL(full || other) of every row in nats, the other's -log p of the token that comes next, and its first choice. logits
  /// [rows, vocabulary] with the rows given to `set`; next [rows], -1 where nothing does (loss 0); kl, losses, choices
  /// [rows]. Exponentials in f32 within an ulp, sums in double.
  void compare(const kvpop::host_context& ctx, const float* logits, const std::int32_t* next, double* kl,
               double* losses, std::int64_t* choices) const;

 private:
  std::int64_t rows_ = 0;
  std::int64_t vocabulary_ = 0;
  std::vector<float> logits_;          // [rows, vocabulary]
  std::vector<float> probabilities_;   // [rows, vocabulary]
  std::vector<double> log_sums_;       // [rows]
  std::vector<std::int64_t> choices_;  // [rows]
};

}  // namespace qwen3
