#pragma once

#include <cstdint>

#include "kvpop/attention/params.hpp"         // attention_params
#include "kvpop/attention/softmax_state.hpp"  // softmax_state, no_logit

/// @file
/// Decode attention of one KV head of one sequence: up to `decode_heads` query heads of its group share every load of K
/// and V. Slots are taken in blocks of `decode_block`, each block gives one softmax_state a query head, and states are
/// merged in block order: the bits of a result depend on nothing but the inputs, whoever computes which block.

KVPOP_NAMESPACE_BEGIN

/// Slots whose softmax is formed together.
inline constexpr index_t decode_block = 256;
/// Query heads that are served by one pass over K and V; a larger group takes several passes.
inline constexpr index_t decode_heads = 16;

/// What a query sees of one KV head: slots [0, held), and the visibility rule.
template <class T>
struct decode_keys {
  const T* keys;             // [held, key_dim]
  const T* values;           // [held, value_dim]
  const index_t* positions;  // [held]; read only with a sliding window
  index_t held;
  index_t oldest;  // keys at positions below are not visible; INT64_MIN without a sliding window
  float soft_cap;  // 0 = none

  /// Slots of the block that begins at `first`; 0 past the end.
  [[nodiscard]] index_t block_at(index_t first) const noexcept {
    return held - first < decode_block ? held - first : decode_block;
  }
};

/// Up to `decode_heads` queries as the kernel reads them: float, scaled, padded with zeros.
template <index_t KeyDim>
struct alignas(64) decode_queries {
  float rows[decode_heads][padded_dim(KeyDim)];
  index_t heads;

  /// Takes one more query [key_dim].
  template <class Q>
  void push(const Q* q, float scale) noexcept {
    float* row = rows[heads++];
    for (index_t d = 0; d < padded_dim(KeyDim); ++d) {
      row[d] = d < KeyDim ? scalar_traits<Q>::to_float(q[d]) * scale : 0.0F;
    }
  }
};

/// One logit, then one weight, for each query head and slot of a block.
struct alignas(64) decode_tile {
  float rows[decode_heads][decode_block];
};

namespace decode_kernel {

/// Bytes of K or V that are asked for ahead of their use.
inline constexpr index_t ahead_bytes = 16384;
/// Rows of V that stay in the first-level cache while all query heads use them.
inline constexpr index_t value_rows = 32;

/// Two arrays that are read one after the other, as bytes: what to ask for while the first is being read.
struct read_ahead {
  const char* current;
  index_t bytes;
  const char* next;
  index_t next_bytes;

  template <class T>
  read_ahead(const T* rows, index_t size, const T* following, index_t following_size) noexcept
      : current(reinterpret_cast<const char*>(rows)),
        bytes(size * static_cast<index_t>(sizeof(T))),
        next(reinterpret_cast<const char*>(following)),
        next_bytes(following_size * static_cast<index_t>(sizeof(T))) {}

  /// The place `ahead_bytes` after the byte at `offset`; past the end of both, a place that was read already.
  [[nodiscard]] const char* at(index_t offset) const noexcept {
    index_t target = offset + ahead_bytes;
    if (target < bytes) return current + target;
    target -= bytes;
    return target < next_bytes ? next + target : current + offset;
  }
};

/// Asks for the line that `i` vectors of T from `ahead` begin, if one begins there. i counts the vectors that a kernel has
/// read, in whatever order it reads them: so lines are asked for one by one and in the order of their addresses, which the
/// CPU's own prefetcher then follows.
template <class T>
KVPOP_INLINE void ask(const char* ahead, index_t i) noexcept {
  const index_t offset = i * simd::lanes * static_cast<index_t>(sizeof(T));
  if (offset % 64 == 0) __builtin_prefetch(ahead + offset);
}

/// Logits of `Heads` queries and lanes / Heads rows of K: `lanes` dot products, summed across lanes together.
template <class T, index_t KeyDim, int Heads, bool Ahead>
KVPOP_INLINE simd::vec dot_rows(const float* q, const T* const* rows, const char* ahead) noexcept {
  constexpr int row_count = static_cast<int>(simd::lanes) / Heads;
  constexpr index_t stride = padded_dim(KeyDim);
  constexpr index_t whole = KeyDim / simd::lanes * simd::lanes;
  simd::vec acc[simd::lanes] = {};
  simd::vec k[row_count];
  const auto step = [&](index_t d) __attribute__((always_inline)) {
    KVPOP_UNROLL
    for (int h = 0; h < Heads; ++h) {
      const simd::vec x = simd::load(q + h * stride + d);
      KVPOP_UNROLL
      for (int r = 0; r < row_count; ++r) acc[h * row_count + r] = simd::fma(x, k[r], acc[h * row_count + r]);
    }
  };
  for (index_t d = 0; d < whole; d += simd::lanes) {
    KVPOP_UNROLL
    for (int r = 0; r < row_count; ++r) {
      if constexpr (Ahead) ask<T>(ahead, d / simd::lanes * row_count + r);
      k[r] = simd::load(rows[r] + d);
    }
    step(d);
  }
  if constexpr (whole < KeyDim) {
    KVPOP_UNROLL
    for (int r = 0; r < row_count; ++r) k[r] = simd::load_part<KeyDim - whole>(rows[r] + whole);
    step(whole);
  }
  return simd::reduce_add_each(acc);
}

/// Logits of `Heads` queries and `count` rows of K into out[h * decode_block + row].
template <class T, index_t KeyDim, int Heads, bool Ahead>
KVPOP_INLINE void logits_of_rows(const float* q, const T* keys, index_t count, const char* ahead, float* out) noexcept {
  constexpr index_t row_count = simd::lanes / Heads;
  for (index_t first = 0; first < count; first += row_count) {
    const index_t n = count - first < row_count ? count - first : row_count;
    const T* rows[row_count];
    for (index_t r = 0; r < row_count; ++r) rows[r] = keys + (first + (r < n ? r : n - 1)) * KeyDim;
    alignas(64) float sums[simd::lanes];  // [Heads, row_count]
    simd::store(sums, dot_rows<T, KeyDim, Heads, Ahead>(q, rows, ahead));
    if constexpr (Ahead) ahead += row_count * KeyDim * static_cast<index_t>(sizeof(T));
    if (n == row_count) [[likely]] {
      KVPOP_UNROLL
      for (int h = 0; h < Heads; ++h) {
        __builtin_memcpy(out + h * decode_block + first, sums + h * row_count, row_count * sizeof(float));
      }
    } else {
      for (int h = 0; h < Heads; ++h) {
        for (index_t r = 0; r < n; ++r) out[h * decode_block + first + r] = sums[h * row_count + r];
      }
    }
  }
}

/// acc[h][chunk of value_dim] += sum over rows of weight[h][row] * V[row][chunk], for `Heads` query heads.
template <class T, index_t ValueDim, int Heads, int Vectors, bool Part, bool Ahead>
KVPOP_INLINE void add_values(const float* weights, const T* values, index_t count, const char* ahead,
                             float* const* acc) noexcept {
  simd::vec sum[Heads][Vectors];
  KVPOP_UNROLL
  for (int h = 0; h < Heads; ++h) {
    KVPOP_UNROLL
    for (int v = 0; v < Vectors; ++v) sum[h][v] = simd::load(acc[h] + v * simd::lanes);
  }
  for (index_t row = 0; row < count; ++row) {
    simd::vec x[Vectors];
    KVPOP_UNROLL
    for (int v = 0; v < Vectors; ++v) {
      const T* p = values + row * ValueDim + v * simd::lanes;
      if constexpr (Ahead) ask<T>(ahead, row * Vectors + v);
      if (Part && v == Vectors - 1) {
        x[v] = simd::load_part<ValueDim % simd::lanes>(p);
      } else {
        x[v] = simd::load(p);
      }
    }
    KVPOP_UNROLL
    for (int h = 0; h < Heads; ++h) {
      const simd::vec w = simd::broadcast(weights[h * decode_block + row]);
      KVPOP_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[h][v] = simd::fma(w, x[v], sum[h][v]);
    }
  }
  KVPOP_UNROLL
  for (int h = 0; h < Heads; ++h) {
    KVPOP_UNROLL
    for (int v = 0; v < Vectors; ++v) simd::store(acc[h] + v * simd::lanes, sum[h][v]);
  }
}

/// The same over all of value_dim, from vector `First` on, in chunks whose sums fit the registers.
template <class T, index_t ValueDim, int Heads, bool Ahead, int First = 0>
KVPOP_INLINE void add_value_rows(const float* weights, const T* values, index_t count, const char* ahead,
                                 float* const* acc) noexcept {
  constexpr int all = static_cast<int>(padded_dim(ValueDim) / simd::lanes);
  constexpr int most = simd::lanes == 16 ? (Heads == 4 ? 4 : 8) : 8 / Heads;
  if constexpr (First < all) {
    constexpr int vectors = all - First < most ? all - First : most;
    constexpr bool part = First + vectors == all && ValueDim % simd::lanes != 0;
    constexpr index_t begin = First * simd::lanes;
    float* chunk[Heads];
    for (int h = 0; h < Heads; ++h) chunk[h] = acc[h] + begin;
    add_values<T, ValueDim, Heads, vectors, part, Ahead>(
        weights, values + begin, count, ahead + begin * count * static_cast<index_t>(sizeof(T)), chunk);
    add_value_rows<T, ValueDim, Heads, Ahead, First + vectors>(weights, values, count, ahead, acc);
  }
}

/// Calls f with 4, 2 or 1 as a compile-time number of query heads, until all are served; the first call is told so.
template <class F>
KVPOP_INLINE void for_heads(index_t heads, F&& f) noexcept {
  if (heads >= 4) {
    f.template operator()<4, true>(0);
  } else if (heads >= 2) {
    f.template operator()<2, true>(0);
  } else {
    f.template operator()<1, true>(0);
  }
  index_t h = heads >= 4 ? 4 : heads >= 2 ? 2 : 1;
  for (; h + 4 <= heads; h += 4) f.template operator()<4, false>(h);
  if (h + 2 <= heads) {
    f.template operator()<2, false>(h);
    h += 2;
  }
  if (h < heads) f.template operator()<1, false>(h);
}

}  // namespace decode_kernel

/// Logits of a block of slots [first, first + count): scaled, capped, no_logit where not visible. Asks ahead for `next`
/// [next_size], which is read afterwards.
template <class T, index_t KeyDim>
[[gnu::noinline]] void decode_logits(const decode_queries<KeyDim>& q, const decode_keys<T>& keys, index_t first,
                                     index_t count, const T* next, index_t next_size, decode_tile& tile) noexcept {
  const T* rows = keys.keys + first * KeyDim;
  const decode_kernel::read_ahead ahead(rows, count * KeyDim, next, next_size);
  for (index_t row = 0; row < count; row += simd::lanes) {
    const index_t n = count - row < simd::lanes ? count - row : simd::lanes;
    const char* wanted = ahead.at(row * KeyDim * static_cast<index_t>(sizeof(T)));
    decode_kernel::for_heads(q.heads, [&]<int Heads, bool First>(index_t h) {
      decode_kernel::logits_of_rows<T, KeyDim, Heads, First>(q.rows[h], rows + row * KeyDim, n, wanted,
                                                             tile.rows[h] + row);
    });
  }
  if (keys.soft_cap != 0.0F) {
    const simd::vec cap = simd::broadcast(keys.soft_cap);
    for (index_t h = 0; h < q.heads; ++h) {
      for (index_t i = 0; i < count; i += simd::lanes) {  // a tile's rows are whole vectors; the rest is set below
        simd::store(tile.rows[h] + i, cap * simd::tanh(simd::load(tile.rows[h] + i) / cap));
      }
    }
  }
  if (keys.oldest != INT64_MIN) {
    for (index_t i = 0; i < count; ++i) {
      if (keys.positions[first + i] >= keys.oldest) continue;
      for (index_t h = 0; h < q.heads; ++h) tile.rows[h][i] = no_logit;
    }
  }
  for (index_t h = 0; h < q.heads; ++h) {
    for (index_t i = count; i % simd::lanes != 0; ++i) tile.rows[h][i] = no_logit;
  }
}

/// The softmax states of slots [first, first + count), count <= decode_block, one for each query of q.
template <class T, index_t KeyDim, index_t ValueDim>
[[gnu::noinline]] void decode_states(const decode_queries<KeyDim>& q, const decode_keys<T>& keys, index_t first,
                                     index_t count, decode_tile& tile, softmax_state<ValueDim>* states) noexcept {
  const T* values = keys.values + first * ValueDim;
  decode_logits<T, KeyDim>(q, keys, first, count, values, count * ValueDim, tile);
  for (index_t h = 0; h < q.heads; ++h) {
    states[h] = {};
    states[h].max = exponentiate(tile.rows[h], count, states[h].sum);
  }
  const decode_kernel::read_ahead ahead(values, count * ValueDim, keys.keys + (first + count) * KeyDim,
                                        keys.block_at(first + count) * KeyDim);
  for (index_t row = 0; row < count; row += decode_kernel::value_rows) {
    const index_t n = count - row < decode_kernel::value_rows ? count - row : decode_kernel::value_rows;
    const char* wanted = ahead.at(row * ValueDim * static_cast<index_t>(sizeof(T)));
    decode_kernel::for_heads(q.heads, [&]<int Heads, bool First>(index_t h) {
      float* acc[Heads];
      for (int i = 0; i < Heads; ++i) acc[i] = states[h + i].acc;
      decode_kernel::add_value_rows<T, ValueDim, Heads, First>(tile.rows[h] + row, values + row * ValueDim, n, wanted,
                                                               acc);
    });
  }
}

/// weights[i] += sum over the queries of exp(logit - lse), for slots first + i of a block; lse[heads].
template <class T, index_t KeyDim>
void decode_weights(const decode_queries<KeyDim>& q, const decode_keys<T>& keys, index_t first, index_t count,
                    const float* lse, decode_tile& tile, float* weights) noexcept {
  decode_logits<T, KeyDim>(q, keys, first, count, keys.keys + (first + count) * KeyDim,
                           keys.block_at(first + count) * KeyDim, tile);
  for (index_t h = 0; h < q.heads; ++h) {
    const simd::vec shift = simd::broadcast(is_no_logit(lse[h]) ? 0.0F : lse[h]);
    for (index_t i = 0; i < count; i += simd::lanes) {
      const simd::vec w = simd::exp(simd::load(tile.rows[h] + i) - shift);
      if (count - i >= simd::lanes) {
        simd::store(weights + i, simd::load(weights + i) + w);
      } else {
        simd::store_first(weights + i, simd::load_first(weights + i, count - i) + w, count - i);
      }
    }
  }
}

KVPOP_NAMESPACE_END
