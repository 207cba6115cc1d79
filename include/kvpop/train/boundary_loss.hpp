#pragma once

#include <cmath>
#include <type_traits>

#include "kvpop/select/priority.hpp"       // fold_decay
#include "kvpop/train/boundary_pairs.hpp"  // boundary_pair

KVPOP_NAMESPACE_BEGIN

/// How boundary comparisons are weighed.
struct boundary_options {
  double tau = 1.0;             ///< temperature: greater than 0
  bool balance = false;         ///< each sign carries half the weight of a head's pairs
  bool margin_weights = false;  ///< omega grows with the teacher's gap: 1 - exp(-|gap| / margin)
  double margin = 1.0;          ///< greater than 0

  /// Throws `error` unless tau and margin are greater than 0.
  void validate() const {
    if (!(tau > 0.0)) fail("boundary_options.tau is " + std::to_string(tau) + "; it must be greater than 0");
    if (!(margin > 0.0)) fail("boundary_options.margin is " + std::to_string(margin) + "; it must be greater than 0");
  }
};

/// What some pairs give.
template <class T>
struct boundary_result {
  T loss{};           ///< sum over the pairs of weight * omega * softplus(...)
  T dlog_gamma{};     ///< its derivative with respect to log gamma
  index_t right = 0;  ///< pairs that the student orders as the teacher does, each by select/order.hpp
};

/// Rank of a token by the student: what a cache that runs on these scores compares (select/priority.hpp).
template <class T>
[[nodiscard]] rank student_rank(const T* r, T log_gamma, index_t position) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    return rank_of(fold_decay(r[position], log_gamma, position), position);
  } else {
    return rank_of(std::fma(-static_cast<double>(position), log_gamma, r[position]), position);
  }
}

/// Loss and gradient of some pairs of one head (docs/method.md section 5; KVpop, arXiv 2607.05061):
///
///     weight * omega * softplus(-y (r_eff(entering) - r_eff(boundary)) / tau),  r_eff(t) = r(t) + (query - t) log gamma
///
/// \param pairs    [count] the sampled ones
/// \param r        [tokens] the student's scores by position
/// \param teacher  [tokens] log targets by position: only for margin_weights, else may be null. Its decay is a constant.
/// \param weight   of every pair: 1 / (pairs of all heads) makes the sum over heads the mean
/// \param dr       [tokens] the gradient is added
///
/// O(count). Does not allocate.
template <class T>
boundary_result<T> boundary_loss(const boundary_pair* pairs, index_t count, const T* r, T log_gamma,
                                 const double* teacher, const boundary_options& options, T weight, T* dr) noexcept {
  index_t wins = 0;
  for (index_t i = 0; i < count; ++i) wins += pairs[i].wins ? 1 : 0;
  const auto share = [&](index_t of_sign) {
    return options.balance ? 0.5 * static_cast<double>(count) / static_cast<double>(of_sign > 1 ? of_sign : 1) : 1.0;
  };
  const double omega_win = share(wins);
  const double omega_loss = share(count - wins);
  boundary_result<T> result;
  for (index_t i = 0; i < count; ++i) {
    const boundary_pair& p = pairs[i];
    const T lead = static_cast<T>(p.boundary - p.entering);  // the younger has decayed by this much less
    const T gap = r[p.entering] - r[p.boundary] + lead * log_gamma;
    double omega = p.wins ? omega_win : omega_loss;
    if (options.margin_weights) {
      const double advantage = teacher[p.entering] - teacher[p.boundary] +
                               static_cast<double>(p.boundary - p.entering) * static_cast<double>(log_gamma);
      omega *= -std::expm1(-std::abs(advantage) / options.margin);
    }
    const T sign = p.wins ? T{1} : T{-1};
    const T tau = static_cast<T>(options.tau);
    const T z = -sign * gap / tau;
    const T scale = weight * static_cast<T>(omega);
    result.loss += scale * ((z > T{0} ? z : T{0}) + std::log1p(std::exp(-std::abs(z))));
    const T slope = -sign * scale / (tau * (T{1} + std::exp(-z)));
    dr[p.entering] += slope;
    dr[p.boundary] -= slope;
    result.dlog_gamma += slope * lead;
    const bool enters = outranks(student_rank(r, log_gamma, p.entering), student_rank(r, log_gamma, p.boundary));
    result.right += enters == p.wins ? 1 : 0;
  }
  return result;
}

KVPOP_NAMESPACE_END
