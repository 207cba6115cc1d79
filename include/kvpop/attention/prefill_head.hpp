#pragma once

#include "kvpop/attention/params.hpp"        // attention_params
#include "kvpop/attention/prefill_tile.hpp"  // the kernels of a tile
#include "kvpop/core/view.hpp"               // view
#include "kvpop/select/order.hpp"            // never

KVPOP_NAMESPACE_BEGIN

/// Some keys of one KV head, in any order of positions. The query at position q sees key i when
/// position[i] <= q < death[i] (and position[i] > q - sliding_window, where the model has one).
template <class T>
struct key_segment {
  const T* k;               // [count, key_dim]
  const T* v;               // [count, value_dim]; not read when no output is wanted
  const index_t* position;  // [count]
  const index_t* death;     // [count]; null: nobody dies
  index_t count;
  index_t k_stride = 0;  // elements from key to key; 0: dense
  index_t v_stride = 0;  // likewise
};

/// The queries of one KV head's group at consecutive positions, and where their results go.
template <class Q, class Out>
struct prefill_rows {
  view<const Q, host_memory, axis::token, axis::head, axis::dim> q;  // [tokens, group, key_dim]
  view<Out, host_memory, axis::token, axis::head, axis::dim> out;    // [tokens, group, value_dim], or empty
  view<float, host_memory, axis::token, axis::head> lse;             // [tokens, group], or empty
  index_t first_position;                                            // of token 0
};

/// Scratch of one call of prefill_head: a query tile's rows and a key tile, never a product of chunk and sequence.
template <index_t KeyDim, index_t ValueDim>
struct prefill_scratch {
  float* queries;        // panels [key_dim, width]: all rows of the tile
  std::int32_t* tokens;  // [rows]
  float* max;            // [rows]
  float* sum;            // [rows]
  float* factor;         // [rows]
  float* acc;            // [rows, padded value_dim]
  float* logits;         // [key_tile, panel]
  float* keys;           // [key_tile, key_dim]
  float* values;         // [key_tile, padded value_dim]

  /// Carves for groups of up to `group` query heads.
  static prefill_scratch carve(carver& memory, index_t group) {
    const index_t rows = padded_dim(checked_multiply(prefill_query_tile, group, "prefill: group"));
    prefill_scratch s;
    s.queries = memory.take<float>(checked_multiply(rows, KeyDim, "prefill: group"));
    s.tokens = memory.take<std::int32_t>(rows);
    s.max = memory.take<float>(rows);
    s.sum = memory.take<float>(rows);
    s.factor = memory.take<float>(rows);
    s.acc = memory.take<float>(checked_multiply(rows, padded_dim(ValueDim), "prefill: group"));
    s.logits = memory.take<float>(prefill_key_tile * prefill_kernel::panel);
    s.keys = memory.take<float>(prefill_key_tile * KeyDim);
    s.values = memory.take<float>(prefill_key_tile * padded_dim(ValueDim));
    return s;
  }
};

namespace prefill_kernel {

/// The tokens [0, tokens) of one query tile: loads their rows, takes key tiles, writes results.
template <class T, index_t KeyDim, index_t ValueDim>
class query_tile {
 public:
  query_tile(const prefill_scratch<KeyDim, ValueDim>& scratch, const attention_params& params, index_t first_position,
             index_t tokens, index_t group, bool values) noexcept
      : s_(scratch),
        params_(params),
        first_(first_position),
        tokens_(tokens),
        rows_(tokens * group),
        group_(group),
        values_(values) {}

  /// Transposes and scales the queries of tokens [begin, begin + tokens), and starts their softmax.
  template <class Q, class Out>
  void load(const prefill_rows<Q, Out>& rows, index_t begin) noexcept {
    const float scale = params_.scale_for(KeyDim);
    for (index_t r = 0; r < padded_dim(rows_); ++r) {
      float* column = s_.queries + r / panel * panel * KeyDim + r % panel;
      const index_t width = width_at(r / panel * panel);
      const Q* q = r < rows_ ? rows.q.row(begin + r / group_, r % group_) : nullptr;
      for (index_t d = 0; d < KeyDim; ++d) {
        column[d * width] = q != nullptr ? scalar_traits<Q>::to_float(q[d]) * scale : 0.0F;
      }
      s_.tokens[r] = static_cast<std::int32_t>(r < rows_ ? r / group_ : tokens_ - 1);
      s_.max[r] = no_logit;
      s_.sum[r] = 0.0F;
      for (index_t d = 0; d < padded_dim(ValueDim); ++d) s_.acc[r * padded_dim(ValueDim) + d] = 0.0F;
    }
  }

  /// Adds keys [begin, begin + count) of a segment; false, and nothing is done, when no token sees any of them.
  bool take(const key_segment<T>& segment, index_t begin, index_t count) noexcept {
    lifetimes life;
    for (index_t n = 0; n < count; ++n) set_lifetime(segment, begin + n, n, life);
    const coverage tile = covered(life, count, 0, tokens_ - 1);
    if (tile == coverage::none) return false;
    const float* k = keys_of(segment, begin, count);
    constexpr index_t v_step = padded_dim(ValueDim);
    const float* v = values_ ? values_of(segment, begin, count) : nullptr;
    const bool finite = !values_ || tile == coverage::all || all_finite(v, count, v_step);
    for (index_t r = 0; r < padded_dim(rows_); r += panel) {
      const panel_rows rows{s_.queries + r * KeyDim, s_.tokens + r,       s_.max + r, s_.sum + r,
                            s_.factor + r,           s_.acc + r * v_step, width_at(r)};
      const coverage c =
          tile == coverage::all ? tile : covered(life, count, rows.tokens[0], rows.tokens[rows.width - 1]);
      if (c == coverage::none) continue;
      form_logits<KeyDim>(k, count, rows, s_.logits);
      if (c == coverage::all) {
        form_weights<false>(s_.logits, count, params_.soft_cap, life, rows);
      } else {
        form_weights<true>(s_.logits, count, params_.soft_cap, life, rows);
      }
      if (!values_) continue;
      if (finite) {
        add_values<ValueDim>(s_.logits, v, v_step, count, rows);
      } else {
        add_visible_values<ValueDim>(s_.logits, v, v_step, count, life, rows);
      }
    }
    return true;
  }

  /// Writes out and lse of tokens [begin, begin + tokens); zeros and -infinity for a row that saw no key.
  template <class Q, class Out>
  void finish(const prefill_rows<Q, Out>& rows, index_t begin) const noexcept {
    for (index_t r = 0; r < rows_; ++r) {
      const index_t token = begin + r / group_;
      const index_t head = r % group_;
      const bool none = std::bit_cast<std::uint32_t>(s_.sum[r]) == 0U;
      const float inverse = none ? 0.0F : 1.0F / s_.sum[r];
      const float* acc = s_.acc + r * padded_dim(ValueDim);
      if (values_) write_out(acc, inverse, rows.out.row(token, head));
      if (rows.lse.data() != nullptr) rows.lse(token, head) = none ? no_logit : s_.max[r] + simd::log(s_.sum[r]);
    }
  }

 private:
  template <class Out>
  static void write_out(const float* acc, float inverse, Out* out) noexcept {
    index_t d = 0;
    for (; d + simd::lanes <= ValueDim; d += simd::lanes) simd::store(out + d, simd::load(acc + d) * inverse);
    if (d < ValueDim) simd::store_first(out + d, simd::load(acc + d) * inverse, ValueDim - d);
  }

  [[nodiscard]] index_t width_at(index_t row) const noexcept {
    return padded_dim(rows_) - row < panel ? simd::lanes : panel;
  }

  // Positions and deaths relative to the tile's first token, cut off to [0, tokens].
  void set_lifetime(const key_segment<T>& segment, index_t i, index_t n, lifetimes& life) const noexcept {
    const index_t position = segment.position[i];
    index_t death = segment.death != nullptr ? segment.death[i] : never;
    const index_t window = params_.sliding_window;
    if (window > 0 && position <= never - window && position + window < death) death = position + window;
    life.born[n] = within_tile(position);
    life.dies[n] = within_tile(death);
  }
  [[nodiscard]] std::int32_t within_tile(index_t position) const noexcept {
    if (position <= first_) return 0;
    return static_cast<std::int32_t>(position - first_ < tokens_ ? position - first_ : tokens_);
  }

  // Floats are read where they lie, as long as whole blocks of rows exist.
  const float* keys_of(const key_segment<T>& segment, index_t begin, index_t count) const noexcept {
    const index_t stride = segment.k_stride != 0 ? segment.k_stride : KeyDim;
    const T* k = segment.k + begin * stride;
    if constexpr (std::is_same_v<T, float>) {
      if (count % block_rows == 0 && stride == KeyDim) return k;
    }
    widen_rows<KeyDim, KeyDim>(k, stride, count, s_.keys);
    for (index_t i = count * KeyDim; i % (block_rows * KeyDim) != 0; ++i) s_.keys[i] = 0.0F;
    return s_.keys;
  }
  const float* values_of(const key_segment<T>& segment, index_t begin, index_t count) const noexcept {
    const index_t stride = segment.v_stride != 0 ? segment.v_stride : ValueDim;
    const T* v = segment.v + begin * stride;
    if constexpr (std::is_same_v<T, float> && ValueDim % simd::lanes == 0) {
      if (stride == ValueDim) return v;
    }
    widen_rows<ValueDim, padded_dim(ValueDim)>(v, stride, count, s_.values);
    return s_.values;
  }

  prefill_scratch<KeyDim, ValueDim> s_;
  attention_params params_;
  index_t first_;
  index_t tokens_;
  index_t rows_;
  index_t group_;
  bool values_;
};

}  // namespace prefill_kernel

/// Attention of consecutive queries of one (sequence, KV head) over `segment_count` disjoint sets of keys, under the keep
/// predicate. Logits and sums are fp32 whatever T is. A row that sees no key gives zeros and an lse of -infinity.
///
/// Tokens are taken in tiles of prefill_query_tile from token 0, the keys of each segment in tiles of prefill_key_tile from
/// key 0. Returns the number of pairs (query tile, key tile) that were visited: those in which at least one token sees at
/// least one key; the others cost a look at their positions and deaths. So the number follows from positions, deaths and
/// the sliding window alone. Without an output only the LSE is formed, and values are not read. Scratch: prefill_scratch carved for this group. Allocates: no. Bits depend on inputs alone.
template <class T, index_t KeyDim, index_t ValueDim, class Q, class Out>
index_t prefill_head(const key_segment<T>* segments, int segment_count, const prefill_rows<Q, Out>& rows,
                     const attention_params& params, const prefill_scratch<KeyDim, ValueDim>& scratch) noexcept {
  const index_t tokens = rows.q.template extent<axis::token>();
  index_t visited = 0;
  for (index_t begin = 0; begin < tokens; begin += prefill_query_tile) {
    const index_t n = tokens - begin < prefill_query_tile ? tokens - begin : prefill_query_tile;
    prefill_kernel::query_tile<T, KeyDim, ValueDim> tile(scratch, params, rows.first_position + begin, n,
                                                         rows.q.template extent<axis::head>(),
                                                         rows.out.data() != nullptr);
    tile.load(rows, begin);
    for (int s = 0; s < segment_count; ++s) {
      for (index_t first = 0; first < segments[s].count; first += prefill_key_tile) {
        const index_t left = segments[s].count - first;
        visited += tile.take(segments[s], first, left < prefill_key_tile ? left : prefill_key_tile) ? 1 : 0;
      }
    }
    tile.finish(rows, begin);
  }
  return visited;
}

KVPOP_NAMESPACE_END
