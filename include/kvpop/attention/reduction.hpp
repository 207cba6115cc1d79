#pragma once

#include <bit>       // bit_cast
#include <cmath>     // std::pow
#include <concepts>  // convertible_to, same_as
#include <type_traits>

#include "kvpop/attention/softmax_state.hpp"  // no_logit
#include "kvpop/core/error.hpp"               // fail

/// @file
/// Reductions over queries: how the attention weights that one key receives from all queries that see it become one number
/// (docs/method.md section 3; KVpop, arXiv 2607.05061, uses the mean). A reduction of your own is a struct of four members:
///
///     struct count_above_half {
///       static vec initial() noexcept { return vec{}; }
///       static vec take(vec state, vec log_weight, vec /*age*/) noexcept {
///         return state + select(log_weight > broadcast(-0.6931F), broadcast(1.0F), vec{});
///       }
///       static vec join(vec a, vec b) noexcept { return a + b; }
///       static float finish(float state, index_t /*queries*/) noexcept { return state; }
///     };
///
/// with vec, select and broadcast of kvpop::simd. Every lane is a key of its own.

KVPOP_NAMESPACE_BEGIN

/// A reduction, a trivially copyable value:
///
///     vec initial()                              the state of no queries
///     vec take(vec state, vec log_weight, vec age)  one more query: its log weight min(logit - lse, 0), and how many queries
///                                                after the key's first one it stands; queries come in order
///     vec join(vec earlier, vec later)           the states of two disjoint sets of queries as one
///     float finish(float state, index_t queries) the result; `queries` is how many see the key, 0 included
template <class R>
concept reduction = std::is_trivially_copyable_v<R> && requires(const R& r, simd::vec v, float state, index_t n) {
  { r.initial() }
  noexcept->std::same_as<simd::vec>;
  { r.take(v, v, v) }
  noexcept->std::same_as<simd::vec>;
  { r.join(v, v) }
  noexcept->std::same_as<simd::vec>;
  { r.finish(state, n) }
  noexcept->std::same_as<float>;
};

/// (sum of weight^alpha / N)^(1 / alpha), N = max(1, queries): 1 is the mean, 2 the root mean square.
struct power_mean {
  float alpha = 2.0F;

  /// Throws `error` unless alpha is finite and greater than 0.
  explicit power_mean(float exponent) : alpha(exponent) {
    const auto bits = std::bit_cast<std::uint32_t>(exponent);  // on bits, for -ffast-math
    if (bits == 0 || bits >= 0x7f800000U) [[unlikely]] {
      fail("power_mean: alpha is " + std::to_string(exponent) + "; it must be finite and greater than 0");
    }
  }

  [[nodiscard]] simd::vec initial() const noexcept { return simd::vec{}; }
  [[nodiscard]] simd::vec take(simd::vec state, simd::vec log_weight, simd::vec /*age*/) const noexcept {
    return state + simd::exp(simd::broadcast(alpha) * log_weight);
  }
  [[nodiscard]] simd::vec join(simd::vec earlier, simd::vec later) const noexcept { return earlier + later; }
  [[nodiscard]] float finish(float state, index_t queries) const noexcept {
    const double mean = static_cast<double>(state) / static_cast<double>(queries > 1 ? queries : 1);
    return static_cast<float>(std::pow(mean, 1.0 / static_cast<double>(alpha)));
  }
};

/// The sum of the weights.
struct weight_sum {
  [[nodiscard]] static simd::vec initial() noexcept { return simd::vec{}; }
  [[nodiscard]] static simd::vec take(simd::vec state, simd::vec log_weight, simd::vec /*age*/) noexcept {
    return state + simd::exp(log_weight);
  }
  [[nodiscard]] static simd::vec join(simd::vec earlier, simd::vec later) noexcept { return earlier + later; }
  [[nodiscard]] static float finish(float state, index_t /*queries*/) noexcept { return state; }
};

/// The largest single weight: the power mean at infinity. 0 for a key that no query sees; NaN when one weight is.
struct largest_weight {
  [[nodiscard]] static simd::vec initial() noexcept { return simd::broadcast(no_logit); }
  [[nodiscard]] static simd::vec take(simd::vec state, simd::vec log_weight, simd::vec /*age*/) noexcept {
    return join(state, log_weight);
  }
  [[nodiscard]] static simd::vec join(simd::vec earlier, simd::vec later) noexcept {
    const simd::vec larger = simd::max(later, earlier);  // a NaN among the earlier stays
    return simd::select(simd::as_bits(simd::abs(later)) > 0x7f800000U, later, larger);
  }
  [[nodiscard]] static float finish(float state, index_t /*queries*/) noexcept {
    return is_no_logit(state) ? 0.0F : simd::exp(state);
  }
};

/// Sum of weight * rho^age: what comes soon counts for more.
struct discounted_sum {
  float log_rho = 0.0F;

  /// Throws `error` unless 0 < rho <= 1.
  explicit discounted_sum(float rho) : log_rho(static_cast<float>(std::log(static_cast<double>(rho)))) {
    const auto bits = std::bit_cast<std::uint32_t>(rho);
    if (bits == 0 || bits > 0x3f800000U) [[unlikely]] {
      fail("discounted_sum: rho is " + std::to_string(rho) + "; it must be greater than 0 and at most 1");
    }
  }

  [[nodiscard]] simd::vec initial() const noexcept { return simd::vec{}; }
  [[nodiscard]] simd::vec take(simd::vec state, simd::vec log_weight, simd::vec age) const noexcept {
    return state + simd::exp(simd::fma(age, simd::broadcast(log_rho), log_weight));
  }
  [[nodiscard]] simd::vec join(simd::vec earlier, simd::vec later) const noexcept { return earlier + later; }
  [[nodiscard]] float finish(float state, index_t /*queries*/) const noexcept { return state; }
};

KVPOP_NAMESPACE_END
