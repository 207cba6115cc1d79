#pragma once

#include <bit>  // bit_cast

#include "kvpop/core/math.hpp"  // exp, log

KVPOP_NAMESPACE_BEGIN

/// -infinity: the maximum of no logits, and the logit of a key that is not visible. Tested on bits, so -ffast-math keeps it.
inline constexpr float no_logit = std::bit_cast<float>(0xff800000U);
[[nodiscard]] constexpr bool is_no_logit(float value) noexcept {
  return std::bit_cast<std::uint32_t>(value) == 0xff800000U;
}

/// `dim` rounded up to whole vectors.
[[nodiscard]] constexpr index_t padded_dim(index_t dim) noexcept {
  return (dim + simd::lanes - 1) / simd::lanes * simd::lanes;
}

/// The softmax of some keys for one query, unfinished: max = largest logit, sum = sum of exp(logit - max), acc = the same
/// sum with each term multiplied by its value row.
///
/// A commutative monoid up to rounding: `merge` joins the states of two disjoint sets of keys, and the value-initialised
/// state is the one of no keys. Merging in a fixed order gives fixed bits. A NaN logit makes sum and acc NaN for good.
template <index_t ValueDim>
struct alignas(64) softmax_state {
  float acc[padded_dim(ValueDim)] = {};  // [value_dim], zero beyond
  float max = no_logit;
  float sum = 0.0F;

  /// Joins the keys of `other`, which are none of this state's.
  void merge(const softmax_state& other) noexcept {
    const float both = max > other.max ? max : other.max;
    const float mine = weight(max, both);
    const float theirs = weight(other.max, both);
    for (index_t i = 0; i < padded_dim(ValueDim); i += simd::lanes) {
      const simd::vec scaled = simd::load(other.acc + i) * simd::broadcast(theirs);
      simd::store(acc + i, simd::fma(simd::load(acc + i), simd::broadcast(mine), scaled));
    }
    sum = sum * mine + other.sum * theirs;
    max = both;
  }

  /// Writes the attention output [value_dim], zeros where there were no keys, and returns the log-sum-exp of the logits
  /// (natural log), -infinity where there were none.
  template <class Out>
  float finish(Out* out) const noexcept {
    const simd::vec inverse = simd::broadcast(is_empty() ? 0.0F : 1.0F / sum);
    constexpr index_t whole = ValueDim / simd::lanes * simd::lanes;
    for (index_t i = 0; i < whole; i += simd::lanes) simd::store(out + i, simd::load(acc + i) * inverse);
    if constexpr (whole < ValueDim) {
      simd::store_first(out + whole, simd::load(acc + whole) * inverse, ValueDim - whole);
    }
    return is_empty() ? no_logit : max + simd::log(sum);
  }

  /// Whether no visible key has been seen.
  [[nodiscard]] bool is_empty() const noexcept { return std::bit_cast<std::uint32_t>(sum) == 0U; }

  /// exp(part - whole): the factor that takes a sum from maximum `part` to maximum `whole`; 0 for no keys.
  static float weight(float part, float whole) noexcept { return is_no_logit(part) ? 0.0F : simd::exp(part - whole); }
};

/// Replaces `count` logits, padded with no_logit to whole vectors, by exp(logit - largest); adds them up in `sum` and
/// returns the largest. NaN logits do not count as largest, but make the sum NaN.
inline float exponentiate(float* row, index_t count, float& sum) noexcept {
  simd::vec largest = simd::broadcast(no_logit);
  for (index_t i = 0; i < count; i += simd::lanes) largest = simd::max(simd::load(row + i), largest);
  const float max = simd::reduce_max(largest);
  const simd::vec shift = simd::broadcast(is_no_logit(max) ? 0.0F : max);
  simd::vec total{};
  for (index_t i = 0; i < count; i += simd::lanes) {
    const simd::vec e = simd::exp(simd::load(row + i) - shift);
    simd::store(row + i, e);
    total += e;
  }
  sum = simd::reduce_add(total);
  return max;
}

KVPOP_NAMESPACE_END
