#pragma once

#include <cstdint>

#include "kvpop/attention/block_product.hpp"  // multiply, panel, block_rows
#include "kvpop/attention/reduction.hpp"      // reduction
#include "kvpop/core/workspace.hpp"           // carver

/// @file
/// The arithmetic of transposed attention: a tile of query rows against a panel of keys, with lanes over keys. Queries are
/// broadcast from where they lie, only keys are ever transposed, and a reduction over queries never crosses lanes.

KVPOP_NAMESPACE_BEGIN

/// Queries of a tile.
inline constexpr index_t transposed_query_tile = 64;
/// Keys that share one pass over the queries: panels of 2 * lanes.
inline constexpr index_t transposed_key_block = 256;

namespace transposed_kernel {

using prefill_kernel::block_rows;
using prefill_kernel::panel;

/// When a key is seen: by the queries first <= d < end. Relative to the first query of a tile once handed to it.
struct key_bounds {
  const index_t* first;  // [keys]
  const index_t* end;    // [keys]
};

/// Whether some, and whether all, of the queries [begin, begin + count) see some, or all, of the panel's keys.
struct panel_cover {
  index_t first_some = 0, end_some = 0;  // outside of these nobody is seen
  index_t first_all = 0, end_all = 0;    // within these everybody is

  static panel_cover of(const key_bounds& keys, index_t count) noexcept {
    panel_cover c{keys.first[0], keys.end[0], keys.first[0], keys.end[0]};
    for (index_t i = 1; i < count; ++i) {
      c.first_some = keys.first[i] < c.first_some ? keys.first[i] : c.first_some;
      c.first_all = keys.first[i] > c.first_all ? keys.first[i] : c.first_all;
      c.end_some = keys.end[i] > c.end_some ? keys.end[i] : c.end_some;
      c.end_all = keys.end[i] < c.end_all ? keys.end[i] : c.end_all;
    }
    return c;
  }
  [[nodiscard]] bool none(index_t begin, index_t count) const noexcept {
    return begin + count <= first_some || begin >= end_some;
  }
  [[nodiscard]] bool all(index_t begin, index_t count) const noexcept {
    return begin >= first_all && begin + count <= end_all;
  }
};

/// Scratch of one worker.
struct scratch {
  float* keys;     // [key_block / panel][key_dim, panel] scaled
  float* queries;  // [query_tile, key_dim]
  float* lse;      // [query_tile]
  float* logits;   // [query_tile, panel]
  float* state;    // [group, key_block]

  static scratch carve(carver& memory, index_t group, index_t key_dim) {
    scratch s{};
    s.keys = memory.take<float>(checked_multiply(transposed_key_block, key_dim, "transposed_attention: key_dim"));
    s.queries = memory.take<float>(checked_multiply(transposed_query_tile, key_dim, "transposed_attention: key_dim"));
    s.lse = memory.take<float>(transposed_query_tile);
    s.logits = memory.take<float>(transposed_query_tile * panel);
    s.state = memory.take<float>(checked_multiply(transposed_key_block, group, "transposed_attention: group"));
    return s;
  }
};

/// logits[row][key] = queries[row] . keys[key] for one panel; rows up to the next multiple of block_rows exist.
[[gnu::noinline]] inline void form_logits(const float* queries, index_t rows, const float* keys, index_t key_dim,
                                          float* logits) noexcept {
  for (index_t n = 0; n < rows; n += block_rows) {
    prefill_kernel::multiply<block_rows, 2>(queries + n * key_dim, key_dim, 1, keys, panel, key_dim, logits + n * panel,
                                            panel, nullptr);
  }
}

/// What a tile's queries do to a panel's states. `begin` is the absolute position of row 0.
template <bool Masked, reduction R>
[[gnu::noinline]] void reduce(const R& r, const float* logits, const float* lse, index_t begin, index_t rows,
                              float soft_cap, const key_bounds& keys, float* state) noexcept {
  for (index_t column = 0; column < panel; column += simd::lanes) {
    simd::ivec first{};
    simd::ivec end{};
    for (index_t lane = 0; lane < simd::lanes; ++lane) {
      // Cut off to what 32 bits hold: further away than a tile is far enough for `end`, and exact for ages below 2^24.
      first[lane] = static_cast<std::int32_t>(keys.first[column + lane] - begin);
      const index_t rest = keys.end[column + lane] - begin;
      end[lane] = static_cast<std::int32_t>(rest < 0 ? 0 : rest > rows ? rows : rest);
    }
    const simd::vec age0 = simd::negate(__builtin_convertvector(first, simd::vec));
    simd::vec own = r.initial();
    for (index_t row = 0; row < rows; ++row) {
      simd::vec l = simd::load(logits + row * panel + column);
      if (soft_cap != 0.0F) l = simd::broadcast(soft_cap) * simd::tanh(l / simd::broadcast(soft_cap));
      const simd::vec log_weight = simd::min(simd::vec{}, l - simd::broadcast(lse[row]));
      const simd::vec next = r.take(own, log_weight, age0 + simd::broadcast(static_cast<float>(row)));
      if constexpr (Masked) {
        const auto at = static_cast<std::int32_t>(row);
        own = simd::select((first <= at) & (at < end), next, own);
      } else {
        own = next;
      }
    }
    simd::store(state + column, r.join(simd::load(state + column), own));
  }
}

}  // namespace transposed_kernel

KVPOP_NAMESPACE_END
