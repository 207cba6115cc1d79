#pragma once

#include <algorithm>
#include <atomic>

#include "kvpop/attention/documents.hpp"     // segments_view, chunk_lse_view, document_ends
#include "kvpop/attention/prefill_head.hpp"  // prefill_head, the kernel
#include "kvpop/core/context.hpp"            // host_context
#include "kvpop/core/view_checks.hpp"        // expects_rows

KVPOP_NAMESPACE_BEGIN

/// Death times of whole sequences: [sequences, kv_heads, tokens].
using deaths_view = view<const index_t, host_memory, axis::sequence, axis::head, axis::token>;

/// Optional arguments of `masked_attention`.
struct masked_params {
  attention_params attention = {};
  deaths_view deaths = {};         ///< empty: nobody dies, which is dense causal attention
  segments_view segments = {};     ///< documents packed in one row: attention stays within them; empty: one document
  chunk_lse_view<float> lse = {};  ///< receives each query's log-sum-exp (natural log); empty: not wanted
};

namespace masked_verb {

/// Scratch of one call: positions, when every key dies for its own document, and what each worker needs.
template <index_t KeyDim, index_t ValueDim>
struct scratch {
  index_t* positions = nullptr;  // [tokens]
  index_t* deaths = nullptr;     // [sequences, kv_heads or 1, tokens]; null: as given
  std::byte* workers = nullptr;  // [threads, bytes]
  std::size_t bytes = 0;

  static scratch carve(carver& memory, index_t sequences, index_t tokens, index_t death_heads, index_t group,
                       int threads) {
    scratch s;
    s.positions = memory.take<index_t>(tokens);
    const index_t rows = checked_multiply(sequences, death_heads, "masked_attention: sequences");
    s.deaths = memory.take<index_t>(checked_multiply(rows, tokens, "masked_attention: tokens"));
    carver one;
    static_cast<void>(prefill_scratch<KeyDim, ValueDim>::carve(one, group));
    s.bytes = one.bytes();
    s.workers = memory.take<std::byte>(checked_multiply(static_cast<index_t>(s.bytes), threads, "masked_attention"));
    return s;
  }
};

/// Heads for which deaths must be worked out: none unless there are segments; one for all of them when nobody dies.
inline index_t death_heads(bool segments, bool deaths, index_t kv_heads) noexcept {
  return !segments ? 0 : deaths ? kv_heads : 1;
}

template <index_t KeyDim, index_t ValueDim, class Q, class T, class Out>
struct job {
  chunk_view<Q> q;      // [sequences, tokens, query_heads, key_dim]
  chunk_view<T> k;      // [sequences, tokens, kv_heads, key_dim]
  chunk_view<T> v;      // [sequences, tokens, kv_heads, value_dim]
  chunk_view<Out> out;  // [sequences, tokens, query_heads, value_dim], or empty
  masked_params params;

  [[nodiscard]] index_t sequences() const noexcept { return k.extents()[0]; }
  [[nodiscard]] index_t tokens() const noexcept { return k.extents()[1]; }
  [[nodiscard]] index_t kv_heads() const noexcept { return k.extents()[2]; }
  [[nodiscard]] index_t group() const noexcept { return q.extents()[2] / kv_heads(); }
  [[nodiscard]] index_t death_heads() const noexcept {
    return masked_verb::death_heads(params.segments.data() != nullptr, params.deaths.data() != nullptr, kv_heads());
  }

  void check() const {
    const auto check = [](const char* name, const auto& x, const std::array<index_t, 4>& extents) {
      expects_extents(name, x, extents);
      expects_rows(name, x);
    };
    expects(kv_heads() >= 1, "masked_attention: k.extent(head)", kv_heads(), "at least 1");
    const index_t query_heads = q.extents()[2];
    expects(query_heads >= kv_heads() && query_heads % kv_heads() == 0, "masked_attention: q.extent(head)", query_heads,
            "a multiple of k.extent(head)");
    check("masked_attention: q", q, {sequences(), tokens(), query_heads, KeyDim});
    check("masked_attention: k", k, {sequences(), tokens(), kv_heads(), KeyDim});
    if (out.data() != nullptr) {
      check("masked_attention: v", v, {sequences(), tokens(), kv_heads(), ValueDim});
      check("masked_attention: out", out, {sequences(), tokens(), query_heads, ValueDim});
    }
    if (params.lse.data() != nullptr) {
      expects_equal("masked_attention: lse.extent(sequence)", params.lse.extents()[0], sequences(), "k");
      expects_equal("masked_attention: lse.extent(token)", params.lse.extents()[1], tokens(), "k");
      expects_equal("masked_attention: lse.extent(head)", params.lse.extents()[2], query_heads, "q");
    }
    if (params.deaths.data() != nullptr) {
      expects_equal("masked_attention: deaths.extent(sequence)", params.deaths.extents()[0], sequences(), "k");
      expects_equal("masked_attention: deaths.extent(head)", params.deaths.extents()[1], kv_heads(), "k");
      expects_equal("masked_attention: deaths.extent(token)", params.deaths.extents()[2], tokens(), "k");
      expects_rows("masked_attention: deaths", params.deaths);
    }
    expects_segments("masked_attention", params.segments, sequences(), tokens());
    params.attention.validate();
  }

  /// Positions, and the deaths of keys whose document ends before they would.
  void prepare(const scratch<KeyDim, ValueDim>& s) const noexcept {
    for (index_t t = 0; t < tokens(); ++t) s.positions[t] = t;
    for (index_t b = 0; b < sequences(); ++b) {
      for (index_t h = 0; h < death_heads(); ++h) {
        index_t* deaths = s.deaths + (b * death_heads() + h) * tokens();
        document_ends(params.segments, b, tokens(), deaths);
        if (params.deaths.data() == nullptr) continue;
        for (index_t t = 0; t < tokens(); ++t) deaths[t] = std::min(deaths[t], params.deaths(b, h, t));
      }
    }
  }

  [[nodiscard]] const index_t* deaths_of(const scratch<KeyDim, ValueDim>& s, index_t b, index_t h) const noexcept {
    if (death_heads() > 0) return s.deaths + (b * death_heads() + h % death_heads()) * tokens();
    return params.deaths.data() != nullptr ? params.deaths.row(b, h) : nullptr;
  }

  /// Attention of one query tile.
  void attend(const scratch<KeyDim, ValueDim>& s, index_t b, index_t h, index_t begin,
              const prefill_scratch<KeyDim, ValueDim>& own) const noexcept {
    const index_t n = std::min(prefill_query_tile, tokens() - begin);
    const auto part = [&](const auto& x, index_t dim) {
      using element = typename std::remove_cvref_t<decltype(x)>::element_type;
      if (x.data() == nullptr) return view<element, host_memory, axis::token, axis::head, axis::dim>();
      return view<element, host_memory, axis::token, axis::head, axis::dim>(
          x.row(b, begin, h * group()), {n, group(), dim}, {x.strides()[1], x.strides()[2], 1});
    };
    prefill_rows<std::remove_const_t<Q>, Out> rows{part(q, KeyDim), part(out, ValueDim), {}, begin};
    if (params.lse.data() != nullptr) {
      rows.lse = {&params.lse(b, begin, h * group()), {n, group()}, {params.lse.strides()[1], params.lse.strides()[2]}};
    }
    using element = std::remove_const_t<T>;
    const key_segment<element> keys{k.row(b, 0, h), out.data() != nullptr ? v.row(b, 0, h) : nullptr,
                                    s.positions,    deaths_of(s, b, h),
                                    begin + n,  // nothing later is visible to this tile
                                    k.strides()[1], v.strides()[1]};
    prefill_head<element, KeyDim, ValueDim>(&keys, 1, rows, params.attention, own);
  }

  void run(const host_context& ctx, const scratch<KeyDim, ValueDim>& s) const {
    const index_t rows = sequences() * kv_heads();
    const index_t tiles = (tokens() + prefill_query_tile - 1) / prefill_query_tile;
    std::atomic<index_t> next{0};
    ctx.parallel_for(std::min<index_t>(ctx.threads(), rows * tiles), [&](index_t worker) noexcept {
      carver memory({s.workers + static_cast<std::size_t>(worker) * s.bytes, s.bytes}, "masked_attention");
      const auto own = prefill_scratch<KeyDim, ValueDim>::carve(memory, group());
      for (index_t i = next.fetch_add(1); i < rows * tiles; i = next.fetch_add(1)) {
        // The last tiles see most: they are begun first.
        attend(s, i / tiles / kv_heads(), i / tiles % kv_heads(), (tiles - 1 - i % tiles) * prefill_query_tile, own);
      }
    });
  }
};

}  // namespace masked_verb

/// Bytes of workspace that `masked_attention` takes with these params: 8 a token (more with segments), and a constant a
/// thread.
template <index_t KeyDim, index_t ValueDim>
std::size_t masked_workspace(const host_context& ctx, index_t sequences, index_t tokens, index_t query_heads,
                             index_t kv_heads, const masked_params& params = {}) {
  expects(kv_heads >= 1, "masked_workspace: kv_heads", kv_heads, "at least 1");
  const index_t heads =
      masked_verb::death_heads(params.segments.data() != nullptr, params.deaths.data() != nullptr, kv_heads);
  carver count;
  static_cast<void>(masked_verb::scratch<KeyDim, ValueDim>::carve(count, sequences, tokens, heads,
                                                                  query_heads / kv_heads, ctx.threads()));
  return count.bytes();
}

/// Attention of whole sequences under the keep predicate keep(q, t) = t <= q < death(t): the teacher's dense forward, where
/// nobody dies, and the student's parallel pass, where death times stand for its budget (docs/method.md section 2).
///
/// q      [sequences, tokens, query_heads, key_dim]   RoPE applied, any scalar type
/// k, v   [sequences, tokens, kv_heads, key_dim / value_dim]; token i stands at position i
/// out    [sequences, tokens, query_heads, value_dim]; empty: only params.lse is wanted, and v is neither read nor needed
///
/// fp32 accumulation; tiles that no query sees are skipped. Errors, before anything is written: extents or params that do
/// not fit; rows that are not contiguous or have no data; a workspace below `masked_workspace`. Parallel over sequences x heads x query tiles; does not allocate or
/// synchronise. Bits depend on the inputs alone.
template <index_t KeyDim, index_t ValueDim, class Q, class T, class Out>
void masked_attention(const host_context& ctx, const chunk_view<Q>& q, const chunk_view<T>& k, const chunk_view<T>& v,
                      const chunk_view<Out>& out, const masked_params& params, const workspace& memory) {
  const masked_verb::job<KeyDim, ValueDim, Q, T, Out> job{q, k, v, out, params};
  job.check();
  carver arrays(memory, "masked_attention");
  const auto s = masked_verb::scratch<KeyDim, ValueDim>::carve(arrays, job.sequences(), job.tokens(), job.death_heads(),
                                                               job.group(), ctx.threads());
  job.prepare(s);
  job.run(ctx, s);
}

KVPOP_NAMESPACE_END
