#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace qwen3 {

/// How the next token is drawn.
struct sampling {
  double temperature = 0;  // 0: the first choice always
  std::int64_t top_k = 0;  // only the k likeliest; 0: all
  double top_p = 1;        // then only the fewest likeliest that make up this much
  std::uint64_t seed = 0;
};

/// Draws tokens from logits. Equal parameters and equal logits give equal tokens with every standard library: the
/// generator is std::mt19937_64, whose numbers the standard fixes, and what is made of them is written out here.
class sampler {
 public:
  /// Throws usage_error naming the parameter, its value and its limits.
  explicit sampler(const sampling& parameters);

  /// The next token for logits [vocabulary], at least one.
  ///
  /// Temperature first, then top_k, then top_p of what is left, renormalised. Among equal logits the lower id is the
  /// likelier; NaN is never drawn. The first choice when temperature is 0 or no logit is above -infinity.
  std::int32_t operator()(std::span<const float> logits);

 private:
  struct candidate {
    float logit;
    std::int32_t token;
  };
  void gather(std::span<const float> logits);
  std::size_t weigh();
  double uniform();

  sampling parameters_;
  std::mt19937_64 generator_;
  std::vector<candidate> candidates_;  // likeliest first where top_k or top_p look at the order
  std::vector<double> weights_;        // of the candidates, not normalised
};

}  // namespace qwen3
