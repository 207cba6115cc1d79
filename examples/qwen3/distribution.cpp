#include "distribution.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kvpop/core/math.hpp"  // simd::exp

namespace qwen3 {

namespace {

namespace simd = kvpop::simd;
using kvpop::index_t;

// Rounding of f32 sums grows with their length: blocks of this many are summed in f32, the blocks in double.
constexpr index_t block = 1024;

// sum of exp(x - shift), the exponentials written to `out` unless it is null.
double sum_exp(const float* x, index_t n, float shift, float* out) {
  double total = 0;
  for (index_t begin = 0; begin < n; begin += block) {
    const index_t end = std::min(n, begin + block);
    simd::vec sum{};
    for (index_t i = begin; i < end; i += simd::lanes) {
      const index_t rest = std::min(end - i, simd::lanes);
      const simd::vec e = simd::exp(simd::load_first(x + i, rest) - shift);
      float lanes[simd::lanes];
      simd::store(lanes, e);
      if (out != nullptr) std::copy_n(lanes, rest, out + i);
      if (rest == simd::lanes) {
        sum = sum + e;
      } else {
        sum = sum + simd::load_first(lanes, rest);
      }
    }
    total += static_cast<double>(simd::reduce_add(sum));
  }
  return total;
}

// sum of p * ((a - shift_a) - (b - shift_b)): shifts that are the largest logits keep the rounding small.
double weighted_difference(const float* p, const float* a, float shift_a, const float* b, float shift_b, index_t n) {
  double total = 0;
  for (index_t begin = 0; begin < n; begin += block) {
    const index_t end = std::min(n, begin + block);
    simd::vec sum{};
    for (index_t i = begin; i < end; i += simd::lanes) {
      const index_t rest = std::min(end - i, simd::lanes);
      const simd::vec difference =
          (simd::load_first(a + i, rest) - shift_a) - (simd::load_first(b + i, rest) - shift_b);
      sum = simd::fma(simd::load_first(p + i, rest), difference, sum);
    }
    total += static_cast<double>(simd::reduce_add(sum));
  }
  return total;
}

}  // namespace

std::int64_t first_choice(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

void reference_distributions::set(const kvpop::host_context& ctx, std::vector<float>& logits, std::int64_t rows,
                                  std::int64_t vocabulary) {
  rows_ = rows;
  vocabulary_ = vocabulary;
  std::swap(logits_, logits);
  probabilities_.resize(logits_.size());
  log_sums_.resize(static_cast<std::size_t>(rows));
  choices_.resize(static_cast<std::size_t>(rows));
  ctx.parallel_for(rows, [&](index_t row) noexcept {
    const float* x = logits_.data() + row * vocabulary_;
    float* p = probabilities_.data() + row * vocabulary_;
    const auto i = static_cast<std::size_t>(row);
    choices_[i] = first_choice({x, static_cast<std::size_t>(vocabulary_)});
    const float largest = x[choices_[i]];
    const double sum = sum_exp(x, vocabulary_, largest, p);
    log_sums_[i] = std::log(sum);
    const auto scale = static_cast<float>(1 / sum);
    for (index_t j = 0; j < vocabulary_; ++j) p[j] *= scale;
  });
}

double reference_distributions::loss(std::int64_t row, std::int32_t token) const {
  const float* x = logits_.data() + row * vocabulary_;
  const auto i = static_cast<std::size_t>(row);
  return log_sums_[i] + static_cast<double>(x[choices_[i]] - x[token]);
}

void reference_distributions::compare(const kvpop::host_context& ctx, const float* logits, const std::int32_t* next,
                                      double* kl, double* losses, std::int64_t* choices) const {
  ctx.parallel_for(rows_, [&](index_t row) noexcept {
    const float* x = logits + row * vocabulary_;
    const index_t at = row * vocabulary_;
    choices[row] = first_choice({x, static_cast<std::size_t>(vocabulary_)});
    const float largest = x[choices[row]];
    const double log_sum = std::log(sum_exp(x, vocabulary_, largest, nullptr));
    const float* full = logits_.data() + at;
    const auto i = static_cast<std::size_t>(row);
    const double moved =
        weighted_difference(probabilities_.data() + at, full, full[choices_[i]], x, largest, vocabulary_);
    kl[row] = std::max(0.0, moved - log_sums_[i] + log_sum);
    losses[row] = next[row] < 0 ? 0.0 : log_sum + static_cast<double>(largest - x[next[row]]);
  });
}

}  // namespace qwen3
