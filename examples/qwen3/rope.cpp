#include "rope.hpp"

#include <cmath>
#include <numbers>

#include "kvpop/core/dtype.hpp"  // bfloat16, float16

namespace qwen3 {

namespace {

// Slow rotations (long waves) go factor times slower, fast ones stay, and between the two a ramp over the number of turns
// within the original length.
double llama3(double frequency, const llama3_scaling& scaling) {
  const double turns = static_cast<double>(scaling.original_positions) * frequency / (2 * std::numbers::pi);
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  if (turns > scaling.high_freq_factor) return frequency;
  const double kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

float rounded(float x, weight_type precision) {
  if (precision == weight_type::bf16) return static_cast<float>(kvpop::bfloat16(x));
  if (precision == weight_type::f16) return static_cast<float>(kvpop::float16(x));
  return x;
}

}  // namespace

std::vector<float> rope_frequencies(const model_config& config, weight_type precision) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < config.head_dim; i += 2) {
    const double exponent = static_cast<double>(i) / static_cast<double>(config.head_dim);
    const double frequency = std::pow(config.rope_theta, -exponent);
    const double scaled = config.rope_scaling ? llama3(frequency, *config.rope_scaling) : frequency;
    result.push_back(rounded(static_cast<float>(scaled), precision));
  }
  return result;
}

void rope_angles(std::span<const float> frequencies, std::span<const std::int64_t> positions, float* cosines,
                 float* sines) noexcept {
  for (const std::int64_t position : positions) {
    for (const float frequency : frequencies) {
      const float angle = static_cast<float>(position) * frequency;
      *cosines++ = std::cos(angle);
      *sines++ = std::sin(angle);
    }
  }
}

void rotate(const kvpop::host_context& ctx, float* x, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim,
            const float* cosines, const float* sines) {
  const std::int64_t half = head_dim / 2;
  constexpr std::int64_t numbers_a_task = 1 << 16;  // fewer are done before a thread wakes
  const std::int64_t task_tokens = numbers_a_task / (heads * head_dim) + 1;
  ctx.parallel_for((tokens + task_tokens - 1) / task_tokens, [=](std::int64_t task) noexcept {
    const std::int64_t end = (task + 1) * task_tokens < tokens ? (task + 1) * task_tokens : tokens;
    for (std::int64_t t = task * task_tokens; t < end; ++t) {
      const float* cosine = cosines + t * half;
      const float* sine = sines + t * half;
      for (std::int64_t h = 0; h < heads; ++h) {
        float* low = x + (t * heads + h) * head_dim;
        float* high = low + half;
        for (std::int64_t i = 0; i < half; ++i) {
          const float a = low[i], b = high[i];
          low[i] = a * cosine[i] - b * sine[i];
          high[i] = b * cosine[i] + a * sine[i];
        }
      }
    }
  });
}

}  // namespace qwen3
