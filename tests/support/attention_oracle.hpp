#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

/// Attention in double, as the formula is written: the keys of one KV head, one query at a time. Shares nothing with the
/// library; takes the values as the library sees them, that is, rounded to their storage type.
namespace kvpop_test {

/// One query's answer. Without a visible key: zeros, and an lse of -infinity.
struct attention_answer {
  std::vector<double> out;      // [value_dim]
  std::vector<double> weights;  // [keys], 0 where not visible
  double lse = -std::numeric_limits<double>::infinity();
};

/// Rows as doubles.
using matrix = std::vector<std::vector<double>>;

template <class T>
std::vector<double> row_of(const T* data, std::int64_t dim) {
  std::vector<double> row;
  for (std::int64_t i = 0; i < dim; ++i) row.push_back(static_cast<double>(static_cast<float>(data[i])));
  return row;
}

template <class T>
matrix rows_of(const T* data, std::int64_t count, std::int64_t dim) {
  matrix rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(row_of(data + i * dim, dim));
  return rows;
}

/// softmax(cap(q . k * scale)) v over the keys for which visible(i) holds.
template <class Visible>
attention_answer attend(const std::vector<double>& q, const matrix& k, const matrix& v, std::size_t value_dim,
                        double scale, double soft_cap, Visible visible) {
  attention_answer answer;
  answer.out.assign(value_dim, 0.0);
  answer.weights.assign(k.size(), 0.0);
  std::vector<double> logits(k.size());
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < k.size(); ++i) {
    if (!visible(static_cast<std::int64_t>(i))) continue;
    double dot = 0;
    for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * k[i][d];
    logits[i] = dot * scale;
    if (soft_cap > 0) logits[i] = soft_cap * std::tanh(logits[i] / soft_cap);
    largest = std::fmax(largest, logits[i]);
  }
  double sum = 0;
  for (std::size_t i = 0; i < k.size(); ++i) {
    if (visible(static_cast<std::int64_t>(i))) sum += std::exp(logits[i] - largest);
  }
  if (sum == 0) return answer;
  answer.lse = largest + std::log(sum);
  for (std::size_t i = 0; i < k.size(); ++i) {
    if (!visible(static_cast<std::int64_t>(i))) continue;
    answer.weights[i] = std::exp(logits[i] - answer.lse);
    for (std::size_t d = 0; d < value_dim; ++d) answer.out[d] += answer.weights[i] * v[i][d];
  }
  return answer;
}

/// A sound bound for fp32 attention: the error of a logit grows with its terms, and moves every weight by that much.
/// |got - want| <= tolerance * (1 + the largest |logit|) * size, where size is the largest |value| (1 for an lse).
inline bool close(double got, double want, double size, double largest_logit) {
  if (std::isinf(want)) return got == want;
  return std::fabs(got - want) <= 2e-6 * (1.0 + largest_logit) * size + 1e-6 * std::fabs(want);
}

}  // namespace kvpop_test
