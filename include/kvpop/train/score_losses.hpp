#pragma once

#include <cmath>
#include <cstdint>

#include "kvpop/cache/budget.hpp"         // budget
#include "kvpop/select/order.hpp"         // order_key
#include "kvpop/train/random_stream.hpp"  // random_stream

/// @file
/// Losses to compare the boundary loss with (docs/method.md section 5): they train every token, not only those that decide.
/// Both look at tokens with sinks <= t and t + window < tokens.

KVPOP_NAMESPACE_BEGIN

/// Tokens of one head that the losses of this file look at.
[[nodiscard]] constexpr index_t scored_tokens(index_t tokens, const budget& limits) noexcept {
  const index_t count = tokens - limits.window - limits.sinks;
  return count > 0 ? count : 0;
}

/// Adds to dr [tokens] the gradient of weight * sum over tokens of (r - target)^2, and returns that sum.
/// weight: 1 / (tokens of all heads) makes it the mean. O(tokens). Does not allocate.
template <class T>
T regression_loss(const T* r, const double* target, index_t tokens, const budget& limits, T weight, T* dr) noexcept {
  T loss{};
  for (index_t t = limits.sinks; t < limits.sinks + scored_tokens(tokens, limits); ++t) {
    const T gap = r[t] - static_cast<T>(target[t]);
    loss += weight * gap * gap;
    dr[t] += T{2} * weight * gap;
  }
  return loss;
}

/// Adds to dr [tokens] the gradient of weight * sum over `pairs` random pairs of log(1 + exp(-(r_a - r_b))), a being the one
/// with the larger target, and returns that sum. Pairs with equal targets, or with one that is NaN, count 0. O(pairs).
/// Does not allocate.
template <class T>
T pair_loss(random_stream& random, const T* r, const double* target, index_t tokens, const budget& limits,
            index_t pairs, T weight, T* dr) noexcept {
  const index_t count = scored_tokens(tokens, limits);
  T loss{};
  for (index_t i = 0; i < pairs && count > 1; ++i) {
    index_t a = limits.sinks + random.integer(0, count - 1);
    index_t b = limits.sinks + random.integer(0, count - 1);
    if (order_key(target[a]) < order_key(target[b])) {
      const index_t c = a;
      a = b;
      b = c;
    }
    const std::uint64_t lesser = order_key(target[b]);  // 0: NaN
    if (lesser == order_key(target[a]) || lesser == 0) continue;
    const T z = r[b] - r[a];
    loss += weight * ((z > T{0} ? z : T{0}) + std::log1p(std::exp(-std::abs(z))));
    const T slope = weight / (T{1} + std::exp(-z));
    dr[a] -= slope;
    dr[b] += slope;
  }
  return loss;
}

KVPOP_NAMESPACE_END
