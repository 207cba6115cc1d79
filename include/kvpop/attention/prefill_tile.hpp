#pragma once

#include <cstdint>
#include <type_traits>

#include "kvpop/attention/block_product.hpp"  // multiply, panel, block_rows
#include "kvpop/attention/softmax_state.hpp"  // padded_dim, no_logit
#include "kvpop/core/workspace.hpp"           // carver

/// @file
/// The arithmetic of prefill: a panel of query rows against a tile of keys, as two small matrix products with a softmax
/// between them. Logits are formed transposed, [keys, query rows], with lanes over query rows: keys are broadcast from
/// where they lie, nothing but the queries is ever transposed, and the softmax needs no sums across lanes.

KVPOP_NAMESPACE_BEGIN

/// Query tokens of a tile (times the query heads of the group: rows).
inline constexpr index_t prefill_query_tile = 64;
/// Keys of a tile.
inline constexpr index_t prefill_key_tile = 64;

namespace prefill_kernel {

/// A key's visibility to the tokens of a query tile: token t sees it when born <= t < dies.
struct lifetimes {
  alignas(64) std::int32_t born[prefill_key_tile];
  alignas(64) std::int32_t dies[prefill_key_tile];
};

/// How much of a tile of keys some query tokens see.
enum class coverage { none, some, all };

/// What the tokens [first, last] see of `count` keys.
[[nodiscard]] inline coverage covered(const lifetimes& keys, index_t count, index_t first, index_t last) noexcept {
  bool any = false;
  bool all = true;
  for (index_t n = 0; n < count; ++n) {
    const index_t begin = keys.born[n] > first ? keys.born[n] : first;
    const index_t end = keys.dies[n] <= last ? keys.dies[n] : last + 1;
    any |= begin < end;
    all &= begin == first && end == last + 1;
  }
  return all ? coverage::all : any ? coverage::some : coverage::none;
}

/// One panel's running softmax: the part of a prefill_scratch that belongs to its query rows.
struct panel_rows {
  const float* queries;        // [key_dim, width] scaled
  const std::int32_t* tokens;  // [width] index of the row's token in the tile
  float* max;                  // [width]
  float* sum;                  // [width]
  float* factor;               // [width]
  float* acc;                  // [width, padded value_dim]
  index_t width;               // lanes or 2 * lanes
};

/// logits[n][row] = k[n] . queries[row], for count keys rounded up to block_rows; rows of k beyond count must exist.
template <index_t KeyDim>
[[gnu::noinline]] void form_logits(const float* k, index_t count, const panel_rows& rows, float* logits) noexcept {
  for (index_t n = 0; n < count; n += block_rows) {
    if (rows.width == panel) {
      multiply<block_rows, 2>(k + n * KeyDim, KeyDim, 1, rows.queries, panel, KeyDim, logits + n * panel, panel,
                              nullptr);
    } else {
      multiply<block_rows, 1>(k + n * KeyDim, KeyDim, 1, rows.queries, simd::lanes, KeyDim, logits + n * panel, panel,
                              nullptr);
    }
  }
}

/// acc[row] = acc[row] * factor[row] + sum over keys of weights[key][row] * v[key].
template <index_t ValueDim>
[[gnu::noinline]] void add_values(const float* weights, const float* v, index_t v_step, index_t count,
                                  const panel_rows& rows) noexcept {
  constexpr index_t stride = padded_dim(ValueDim);
  for (index_t r = 0; r < rows.width; r += block_rows) {
    index_t d = 0;
    for (; d + panel <= stride; d += panel) {
      multiply<block_rows, 2>(weights + r, 1, panel, v + d, v_step, count, rows.acc + r * stride + d, stride,
                              rows.factor + r);
    }
    if (d < stride) {
      multiply<block_rows, 1>(weights + r, 1, panel, v + d, v_step, count, rows.acc + r * stride + d, stride,
                              rows.factor + r);
    }
  }
}

/// The same where a value is not finite: 0 * infinity must not reach the rows that do not see the key.
template <index_t ValueDim>
[[gnu::noinline]] void add_visible_values(const float* weights, const float* v, index_t v_step, index_t count,
                                          const lifetimes& keys, const panel_rows& rows) noexcept {
  constexpr index_t stride = padded_dim(ValueDim);
  for (index_t r = 0; r < rows.width; ++r) {
    float* acc = rows.acc + r * stride;
    for (index_t d = 0; d < stride; ++d) acc[d] *= rows.factor[r];
    for (index_t n = 0; n < count; ++n) {
      if (keys.born[n] > rows.tokens[r] || keys.dies[n] <= rows.tokens[r]) continue;
      for (index_t d = 0; d < stride; ++d) acc[d] += weights[n * panel + r] * v[n * v_step + d];
    }
  }
}

/// Logits to weights exp(logit - max), [count, panel]; moves the rows' max and sum on and leaves in `factor` what their
/// acc must be multiplied by. With Masked, a key counts only for the tokens that see it.
template <bool Masked>
[[gnu::noinline]] void form_weights(float* logits, index_t count, float soft_cap, const lifetimes& keys,
                                    const panel_rows& rows) noexcept {
  for (index_t r = 0; r < rows.width; r += simd::lanes) {
    simd::ivec token{};
    __builtin_memcpy(&token, rows.tokens + r, sizeof(token));
    const simd::vec old = simd::load(rows.max + r);
    simd::vec largest = old;
    for (index_t n = 0; n < count; ++n) {
      float* p = logits + n * panel + r;
      simd::vec l = simd::load(p);
      if (soft_cap != 0.0F) l = simd::broadcast(soft_cap) * simd::tanh(l / simd::broadcast(soft_cap));
      if constexpr (Masked)
        l = simd::select(keys.born[n] <= token && token < keys.dies[n], l, simd::broadcast(no_logit));
      if (Masked || soft_cap != 0.0F) simd::store(p, l);
      largest = simd::max(l, largest);
    }
    const simd::ivec none = simd::as_bits(largest) == simd::as_bits(simd::broadcast(no_logit));
    const simd::vec shift = simd::select(none, simd::vec{}, largest);
    simd::vec sum{};
    for (index_t n = 0; n < count; ++n) {
      float* p = logits + n * panel + r;
      const simd::vec e = simd::exp(simd::load(p) - shift);
      simd::store(p, e);
      sum += e;
    }
    const simd::vec factor = simd::exp(old - shift);
    simd::store(rows.max + r, largest);
    simd::store(rows.factor + r, factor);
    simd::store(rows.sum + r, simd::fma(simd::load(rows.sum + r), factor, sum));
  }
}

/// Whether every element of [count, dim] is finite.
template <class T>
[[nodiscard]] bool all_finite(const T* rows, index_t count, index_t dim) noexcept {
  const index_t size = count * dim;
  simd::uvec largest{};
  index_t i = 0;
  const auto look = [&](simd::vec v) {
    const simd::uvec magnitude = simd::as_bits(simd::abs(v));
    largest = simd::select(magnitude > largest, magnitude, largest);
  };
  for (; i + simd::lanes <= size; i += simd::lanes) look(simd::load(rows + i));
  if (i < size) look(simd::load_first(rows + i, size - i));
  bool finite = true;
  for (index_t lane = 0; lane < simd::lanes; ++lane) finite &= largest[lane] < 0x7f800000U;
  return finite;
}

/// Rows [count, Dim] of T, `stride` apart, to floats, Step apart; what lies between those is zeroed.
template <index_t Dim, index_t Step, class T>
void widen_rows(const T* from, index_t stride, index_t count, float* to) noexcept {
  constexpr index_t whole = Dim / simd::lanes * simd::lanes;
  for (index_t n = 0; n < count; ++n, from += stride, to += Step) {
    for (index_t d = 0; d < whole; d += simd::lanes) simd::store(to + d, simd::load(from + d));
    if constexpr (whole < Dim) simd::store_first(to + whole, simd::load_part<Dim - whole>(from + whole), Step - whole);
  }
}

}  // namespace prefill_kernel

KVPOP_NAMESPACE_END
