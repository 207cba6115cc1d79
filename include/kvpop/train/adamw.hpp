#pragma once

#include <bit>  // std::bit_cast
#include <cmath>
#include <cstdint>
#include <limits>

#include "kvpop/core/error.hpp"  // fail

KVPOP_NAMESPACE_BEGIN

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101): Adam with decay that does not pass through its moments.
struct adamw_options {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 1e-4;  ///< of matrices alone: the caller says which parameters are

  /// Throws `error` unless 0 <= beta < 1, epsilon > 0 and weight_decay >= 0.
  void validate() const {
    const auto check = [](bool ok, const char* name, double value, const char* limit) {
      if (!ok) fail(std::string("adamw_options.") + name + " is " + std::to_string(value) + "; it must be " + limit);
    };
    check(beta1 >= 0 && beta1 < 1, "beta1", beta1, "in [0, 1)");
    check(beta2 >= 0 && beta2 < 1, "beta2", beta2, "in [0, 1)");
    check(epsilon > 0, "epsilon", epsilon, "greater than 0");
    check(weight_decay >= 0, "weight_decay", weight_decay, "at least 0");
  }
};

/// One step of `count` parameters:
///
///     m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g^2        g = scale * gradient
///     p -= rate * (m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon) + weight_decay * p)
///
/// \param scale     of the gradients: clip_scale, and 1 / accumulated batches
/// \param first     [count] m, zero before step 1
/// \param second    [count] v, likewise
/// \param step      from 1
/// \param decays    whether weight_decay applies: true for matrices
///
/// Reads 4 and writes 3 arrays once; arithmetic in double, stored as T. Does not allocate.
template <class T>
void adamw_step(T* parameters, const T* gradient, T* first, T* second, index_t count, double scale, double rate,
                index_t step, bool decays, const adamw_options& options) noexcept {
  const double bias1 = 1.0 - std::pow(options.beta1, static_cast<double>(step));
  const double bias2 = 1.0 - std::pow(options.beta2, static_cast<double>(step));
  const double decay = decays ? options.weight_decay : 0.0;
  for (index_t i = 0; i < count; ++i) {
    const double g = scale * static_cast<double>(gradient[i]);
    const double m = options.beta1 * static_cast<double>(first[i]) + (1.0 - options.beta1) * g;
    const double v = options.beta2 * static_cast<double>(second[i]) + (1.0 - options.beta2) * g * g;
    const double p = static_cast<double>(parameters[i]);
    first[i] = static_cast<T>(m);
    second[i] = static_cast<T>(v);
    parameters[i] = static_cast<T>(p - rate * (m / bias1 / (std::sqrt(v / bias2) + options.epsilon) + decay * p));
  }
}

/// Sum of squares in double, in order: the square of a norm when taken over all arrays.
template <class T>
[[nodiscard]] double sum_of_squares(const T* x, index_t count) noexcept {
  double sum = 0;
  for (index_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

/// Euclidean norm of one array, in double. O(count); does not allocate. Squares of doubles beyond 1e154 overflow to
/// infinity; those of floats never do.
template <class T>
[[nodiscard]] double global_norm(const T* x, index_t count) noexcept {
  return std::sqrt(sum_of_squares(x, count));
}

/// Whether a norm is neither infinite nor NaN; on false the caller skips the step or stops. Decided on bits, by reference:
/// where a consumer compiles with -ffast-math, std::isfinite is always true.
[[nodiscard]] inline bool is_finite_norm(const double& norm) noexcept {
  constexpr std::uint64_t exponent = std::uint64_t{0x7ff} << 52U;
  return (std::bit_cast<std::uint64_t>(norm) & exponent) != exponent;
}

/// What gradients of this norm are multiplied by so that it is at most `limit`; 1 when there is no limit (0). A norm that
/// is not finite gives NaN, whatever the limit, so that it cannot pass for a harmless one: see is_finite_norm.
[[nodiscard]] inline double clip_scale(const double& norm, double limit) noexcept {
  if (!is_finite_norm(norm)) return std::numeric_limits<double>::quiet_NaN();
  return limit > 0 && norm > limit ? limit / norm : 1.0;
}

KVPOP_NAMESPACE_END
