#pragma once

#include <algorithm>
#include <atomic>
#include <bit>

#include "kvpop/attention/documents.hpp"        // segments_view, document_ends
#include "kvpop/attention/params.hpp"           // attention_params
#include "kvpop/attention/transposed_tile.hpp"  // the kernels of a tile
#include "kvpop/core/context.hpp"               // host_context
#include "kvpop/core/view_checks.hpp"           // expects_rows

KVPOP_NAMESPACE_BEGIN

/// Optional arguments of `transposed_attention`.
struct transposed_params {
  attention_params attention =
      {};                       ///< the model's; with a sliding window, queries d >= t + sliding_window see t no more
  index_t delay = 0;            ///< only queries d >= t + delay count: 0 with the token's own query, else the window
  segments_view segments = {};  ///< documents packed in one row: a key is seen by queries of its own document alone
  index_t first_key = 0;        ///< the keys [first_key, first_key + key_count) are wanted
  index_t key_count = -1;       ///< -1: all from first_key on
  index_t* visited_tiles =
      nullptr;  ///< receives the number of (query tile, key panel, query head) that were not skipped
};

namespace transposed_verb {

template <class Q, class K, reduction R>
struct job {
  chunk_view<Q> q;                  // [sequences, tokens, query_heads, key_dim]
  chunk_view<K> k;                  // [sequences, tokens, kv_heads, key_dim]
  chunk_lse_view<const float> lse;  // [sequences, tokens, query_heads]
  R reduce;
  view<float, host_memory, axis::sequence, axis::head, axis::token> mass;  // [sequences, query_heads, keys]
  transposed_params params;

  [[nodiscard]] index_t sequences() const noexcept { return k.extents()[0]; }
  [[nodiscard]] index_t tokens() const noexcept { return k.extents()[1]; }
  [[nodiscard]] index_t kv_heads() const noexcept { return k.extents()[2]; }
  [[nodiscard]] index_t key_dim() const noexcept { return k.extents()[3]; }
  [[nodiscard]] index_t group() const noexcept { return q.extents()[2] / kv_heads(); }
  [[nodiscard]] index_t key_count() const noexcept {
    return params.key_count >= 0 ? params.key_count : tokens() - params.first_key;
  }

  void check() const {
    expects(sequences() >= 0, "transposed_attention: k.extent(sequence)", sequences(), "at least 0");
    expects(kv_heads() >= 1, "transposed_attention: k.extent(head)", kv_heads(), "at least 1");
    expects(key_dim() >= 1, "transposed_attention: k.extent(dim)", key_dim(), "at least 1");
    expects_equal("transposed_attention: q.extent(sequence)", q.extents()[0], sequences(), "k");
    expects_equal("transposed_attention: q.extent(token)", q.extents()[1], tokens(), "k");
    expects_equal("transposed_attention: q.extent(dim)", q.extents()[3], key_dim(), "k");
    expects(q.extents()[2] >= kv_heads() && q.extents()[2] % kv_heads() == 0, "transposed_attention: q.extent(head)",
            q.extents()[2], "a multiple of k.extent(head)");
    expects_equal("transposed_attention: lse.extent(sequence)", lse.extents()[0], sequences(), "k");
    expects_equal("transposed_attention: lse.extent(token)", lse.extents()[1], tokens(), "k");
    expects_equal("transposed_attention: lse.extent(head)", lse.extents()[2], q.extents()[2], "q");
    expects(params.delay >= 0, "transposed_params.delay", params.delay, "at least 0");
    expects(params.first_key >= 0 && params.first_key <= tokens(), "transposed_params.first_key", params.first_key,
            "within the tokens");
    expects(params.key_count >= -1 && params.key_count <= tokens() - params.first_key, "transposed_params.key_count",
            params.key_count, "-1, or within the tokens");
    expects_equal("transposed_attention: mass.extent(sequence)", mass.extents()[0], sequences(), "k");
    expects_equal("transposed_attention: mass.extent(head)", mass.extents()[1], q.extents()[2], "q");
    expects_equal("transposed_attention: mass.extent(token)", mass.extents()[2], key_count(), "the key range");
    expects_rows("transposed_attention: q", q);
    expects_rows("transposed_attention: k", k);
    expects_data("transposed_attention: lse", lse);
    expects_data("transposed_attention: mass", mass);
    expects_segments("transposed_attention", params.segments, sequences(), tokens());
    params.attention.validate();
  }

  /// The queries that see each key of one sequence: [first, end), by position.
  void bounds(index_t sequence, index_t* first, index_t* end) const noexcept {
    document_ends(params.segments, sequence, tokens(), end);
    const index_t window = params.attention.sliding_window;
    for (index_t t = 0; t < tokens(); ++t) {
      first[t] = params.delay < tokens() - t ? t + params.delay : tokens();
      if (window > 0 && window < end[t] - t) end[t] = t + window;
      if (end[t] < first[t]) end[t] = first[t];
    }
  }

  /// Keys [begin, begin + count) of a head, scaled and transposed into panels; nothing is left undefined beyond them.
  void load_keys(index_t sequence, index_t h, index_t begin, index_t count, float* keys) const noexcept {
    constexpr index_t panel = transposed_kernel::panel;
    const float scale = params.attention.scale_for(key_dim());
    for (index_t i = 0; i < (count + panel - 1) / panel * panel; ++i) {
      float* column = keys + i / panel * panel * key_dim() + i % panel;
      const K* from = i < count ? k.row(sequence, begin + i, h) : nullptr;
      for (index_t d = 0; d < key_dim(); ++d)
        column[d * panel] = from == nullptr ? 0.0F : scalar_traits<std::remove_const_t<K>>::to_float(from[d]) * scale;
    }
  }

  /// Queries [begin, begin + rows) of a query head as floats, and their LSE.
  void load_queries(index_t sequence, index_t head, index_t begin, index_t rows,
                    const transposed_kernel::scratch& s) const noexcept {
    const index_t dim = key_dim();
    for (index_t row = 0; row < rows; ++row) {
      const Q* from = q.row(sequence, begin + row, head);
      float* to = s.queries + row * dim;
      index_t d = 0;
      for (; d + simd::lanes <= dim; d += simd::lanes) simd::store(to + d, simd::load(from + d));
      for (; d < dim; ++d) to[d] = scalar_traits<std::remove_const_t<Q>>::to_float(from[d]);
      s.lse[row] = lse(sequence, begin + row, head);
    }
    for (index_t i = rows * dim; i % (transposed_kernel::block_rows * dim) != 0; ++i) s.queries[i] = 0.0F;
  }

  /// One block of keys of one KV head: all queries of its group that see any of them. Returns the tiles visited.
  index_t run_block(index_t sequence, index_t h, index_t begin, index_t count, const index_t* first, const index_t* end,
                    const transposed_kernel::scratch& s) const noexcept {
    using namespace transposed_kernel;
    constexpr index_t panels_of_block = transposed_key_block / panel;
    load_keys(sequence, h, begin, count, s.keys);
    // A key beyond the last one is seen by nobody.
    index_t firsts[transposed_key_block];
    index_t ends[transposed_key_block];
    panel_cover cover[panels_of_block];
    const index_t panels = (count + panel - 1) / panel;
    for (index_t i = 0; i < panels * panel; ++i) {
      firsts[i] = i < count ? first[begin + i] : firsts[count - 1];
      ends[i] = i < count ? end[begin + i] : firsts[i];
    }
    index_t from = tokens();
    index_t to = 0;
    for (index_t p = 0; p < panels; ++p) {
      cover[p] = panel_cover::of({firsts + p * panel, ends + p * panel}, std::min(panel, count - p * panel));
      from = std::min(from, cover[p].first_some);
      to = std::max(to, cover[p].end_some);
    }
    for (index_t g = 0; g < group(); ++g)
      for (index_t i = 0; i < panels * panel; i += simd::lanes)
        simd::store(s.state + g * transposed_key_block + i, reduce.initial());
    index_t visited = 0;
    for (index_t d = from; d < to; d += transposed_query_tile) {
      const index_t rows = std::min(transposed_query_tile, to - d);
      const auto dead = [&](index_t p) { return cover[p].none(d, rows); };
      index_t live = 0;
      for (index_t p = 0; p < panels; ++p) live += dead(p) ? 0 : 1;
      if (live == 0) continue;
      for (index_t g = 0; g < group(); ++g) {
        load_queries(sequence, h * group() + g, d, rows, s);
        for (index_t p = 0; p < panels; ++p) {
          if (!dead(p)) take_panel(p, d, rows, cover[p], {firsts + p * panel, ends + p * panel}, g, count, s);
        }
      }
      visited += live * group();
    }
    for (index_t g = 0; g < group(); ++g)
      for (index_t i = 0; i < count; ++i)
        mass(sequence, h * group() + g, begin - params.first_key + i) =
            reduce.finish(s.state[g * transposed_key_block + i], ends[i] - firsts[i]);
    return visited;
  }

  void take_panel(index_t p, index_t begin, index_t rows, const transposed_kernel::panel_cover& cover,
                  const transposed_kernel::key_bounds& keys, index_t g, index_t count,
                  const transposed_kernel::scratch& s) const noexcept {
    using namespace transposed_kernel;
    form_logits(s.queries, rows, s.keys + p * panel * key_dim(), key_dim(), s.logits);
    float* state = s.state + g * transposed_key_block + p * panel;
    const bool whole = (p + 1) * panel <= count && cover.all(begin, rows);
    const float cap = params.attention.soft_cap;
    if (whole) {
      transposed_kernel::reduce<false>(reduce, s.logits, s.lse, begin, rows, cap, keys, state);
    } else {
      transposed_kernel::reduce<true>(reduce, s.logits, s.lse, begin, rows, cap, keys, state);
    }
  }
};

/// Scratch of one call: the queries that see each key, and what each worker needs.
struct scratch {
  index_t* first = nullptr;      // [sequences, tokens]
  index_t* end = nullptr;        // [sequences, tokens]
  std::byte* workers = nullptr;  // [threads, bytes]
  std::size_t bytes = 0;

  static scratch carve(carver& memory, index_t sequences, index_t tokens, index_t group, index_t key_dim, int threads) {
    scratch s;
    const index_t all = checked_multiply(sequences, tokens, "transposed_attention: tokens");
    s.first = memory.take<index_t>(all);
    s.end = memory.take<index_t>(all);
    carver one;
    static_cast<void>(transposed_kernel::scratch::carve(one, group, key_dim));
    s.bytes = one.bytes();
    s.workers =
        memory.take<std::byte>(checked_multiply(static_cast<index_t>(s.bytes), threads, "transposed_attention"));
    return s;
  }
};

}  // namespace transposed_verb

/// Bytes of workspace that `transposed_attention` takes: 16 a token, and a constant a thread.
inline std::size_t transposed_workspace(const host_context& ctx, index_t sequences, index_t tokens, index_t query_heads,
                                        index_t kv_heads, index_t key_dim) {
  expects(kv_heads >= 1, "transposed_workspace: kv_heads", kv_heads, "at least 1");
  carver count;
  static_cast<void>(
      transposed_verb::scratch::carve(count, sequences, tokens, query_heads / kv_heads, key_dim, ctx.threads()));
  return count.bytes();
}

/// How much attention every key receives from the queries after it, reduced over those queries; the attention matrix never
/// exists (docs/method.md section 3; KVpop, arXiv 2607.05061, transposed attention).
///
///     mass(h, t) = reduction over d >= t + delay of exp(min(logit(d, t) - lse(d), 0))
///
/// q      [sequences, tokens, query_heads, key_dim]   RoPE applied; float, bfloat16, float16 or any scalar type
/// k      [sequences, tokens, kv_heads, key_dim]      likewise; token i stands at position i
/// lse    [sequences, tokens, query_heads]            of the dense causal forward, or of the sparse student
/// mass   [sequences, query_heads, keys]              out; keys as params says, all by default
///
/// Tiles of keys run over tiles of queries; each logit is formed once, in fp32, and tiles that no query sees are skipped.
/// 2 * key_dim FLOP and one exp for every (query, key) that is seen; one pass over q and k for each block of 256 keys.
/// Errors, before anything is written: extents or params that do not fit; rows that are not contiguous or have no data; a
/// workspace below `transposed_workspace`.
/// Memory: the workspace, O(sequences * tokens). Parallel over sequences x heads x key blocks; does not allocate or
/// synchronise. Bits depend on the inputs alone.
template <class Q, class K, reduction R>
void transposed_attention(const host_context& ctx, const chunk_view<Q>& q, const chunk_view<K>& k,
                          const chunk_lse_view<const float>& lse, const R& reduce,
                          const view<float, host_memory, axis::sequence, axis::head, axis::token>& mass,
                          const transposed_params& params, const workspace& memory) {
  const transposed_verb::job<Q, K, R> job{q, k, lse, reduce, mass, params};
  job.check();
  carver arrays(memory, "transposed_attention");
  const auto s =
      transposed_verb::scratch::carve(arrays, job.sequences(), job.tokens(), job.group(), job.key_dim(), ctx.threads());
  for (index_t b = 0; b < job.sequences(); ++b) {
    job.bounds(b, s.first + b * job.tokens(), s.end + b * job.tokens());
  }
  const index_t blocks = (job.key_count() + transposed_key_block - 1) / transposed_key_block;
  const index_t units = job.sequences() * job.kv_heads() * blocks;
  std::atomic<index_t> next{0};
  std::atomic<index_t> visited{0};
  ctx.parallel_for(std::min<index_t>(ctx.threads(), units), [&](index_t worker) noexcept {
    carver own({s.workers + static_cast<std::size_t>(worker) * s.bytes, s.bytes}, "transposed_attention");
    const auto scratch = transposed_kernel::scratch::carve(own, job.group(), job.key_dim());
    index_t mine = 0;
    // The first blocks are seen by most: of all heads they are begun first.
    for (index_t i = next.fetch_add(1); i < units; i = next.fetch_add(1)) {
      const index_t row = i % (job.sequences() * job.kv_heads());
      const index_t offset = i / (job.sequences() * job.kv_heads()) * transposed_key_block;
      const index_t b = row / job.kv_heads();
      mine += job.run_block(b, row % job.kv_heads(), params.first_key + offset,
                            std::min(transposed_key_block, job.key_count() - offset), s.first + b * job.tokens(),
                            s.end + b * job.tokens(), scratch);
    }
    visited.fetch_add(mine);
  });
  if (params.visited_tiles != nullptr) *params.visited_tiles = visited.load();
}

KVPOP_NAMESPACE_END
