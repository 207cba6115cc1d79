#pragma once

#include <algorithm>

#include "kvpop/attention/decode_head.hpp"  // the kernel
#include "kvpop/cache/cache_ref.hpp"        // budgeted_cache_ref
#include "kvpop/core/context.hpp"           // host_context
#include "kvpop/core/view_checks.hpp"       // step_view, expects_rows
#include "kvpop/core/workspace.hpp"         // workspace, carver

KVPOP_NAMESPACE_BEGIN

/// What attention hands out besides its output. An empty view asks for nothing.
struct attention_outputs {
  /// [sequences, query_heads]: log-sum-exp of the logits, natural log; -infinity where no key was visible.
  view<float, host_memory, axis::sequence, axis::head> lse = {};
  /// [sequences, kv_heads, slots]: the mean over the query heads of the group of exp(logit - lse); 0 for slots that are
  /// not held. Costs a second pass over the keys.
  view<float, host_memory, axis::sequence, axis::head, axis::slot> weights = {};
};

namespace decode_verb {

/// The sizes of one call.
struct shape {
  index_t sequences;
  index_t kv_heads;
  index_t query_heads;
  index_t slots;

  [[nodiscard]] index_t group() const noexcept { return query_heads / kv_heads; }
  [[nodiscard]] index_t rows() const noexcept { return sequences * kv_heads; }
  /// Passes over K and V: the group in parts of decode_heads.
  [[nodiscard]] index_t passes() const noexcept { return (group() + decode_heads - 1) / decode_heads; }
  [[nodiscard]] index_t blocks() const noexcept { return (slots + decode_block - 1) / decode_block; }
};

/// Scratch for splitting heads over slots.
template <index_t ValueDim>
struct scratch {
  softmax_state<ValueDim>* states;  // [sequences, kv_heads, blocks, group]
  float* lse;                       // [sequences, kv_heads, group]

  static scratch carve(carver& memory, const shape& s) {
    const index_t heads = checked_multiply(s.sequences, s.query_heads, "decode_attention");
    return {memory.take<softmax_state<ValueDim>>(checked_multiply(heads, s.blocks(), "decode_attention")),
            memory.take<float>(heads)};
  }
};

/// One call's arguments, checked; the work of one (sequence, KV head) and of its parts.
template <class Q, class T, index_t KeyDim, index_t ValueDim, class Out>
struct job {
  step_view<Q> q;
  budgeted_cache_ref<T, KeyDim, ValueDim> cache;
  step_view<Out> out;
  attention_params params;
  attention_outputs outputs;
  shape sizes;

  [[nodiscard]] decode_keys<T> keys(index_t row) const noexcept {
    const index_t sequence = row / sizes.kv_heads;
    const index_t head = row % sizes.kv_heads;
    const head_state<T> state = cache.head(sequence, head);
    const index_t seen = cache.seen(sequence);
    const bool limited = params.sliding_window > 0 && seen > params.sliding_window;
    return {
        state.keys,     state.values, state.positions, *state.held, limited ? seen - params.sliding_window : INT64_MIN,
        params.soft_cap};
  }

  [[nodiscard]] index_t heads_of(index_t pass) const noexcept {
    const index_t left = sizes.group() - pass * decode_heads;
    return left < decode_heads ? left : decode_heads;
  }

  /// The queries of one pass, ready for the kernel.
  void load(index_t row, index_t pass, decode_queries<KeyDim>& queries) const noexcept {
    const index_t first = row % sizes.kv_heads * sizes.group() + pass * decode_heads;
    queries.heads = 0;
    for (index_t h = 0; h < heads_of(pass); ++h) {
      queries.push(q.row(row / sizes.kv_heads, first + h), params.scale_for(KeyDim));
    }
  }

  /// Writes out and lse of one pass.
  void finish(index_t row, index_t pass, const softmax_state<ValueDim>* states, float* lse) const noexcept {
    const index_t sequence = row / sizes.kv_heads;
    const index_t first = row % sizes.kv_heads * sizes.group() + pass * decode_heads;
    for (index_t h = 0; h < heads_of(pass); ++h) {
      lse[h] = states[h].finish(out.row(sequence, first + h));
      if (outputs.lse.data() != nullptr) outputs.lse(sequence, first + h) = lse[h];
    }
  }

  [[nodiscard]] float* weights(index_t row) const noexcept {
    return outputs.weights.row(row / sizes.kv_heads, row % sizes.kv_heads);
  }
  /// Adds one pass to the weights of a block; the first pass sets them, the last takes the mean.
  void add_weights(index_t row, index_t pass, index_t first, index_t count, const float* lse, decode_tile& tile,
                   const decode_queries<KeyDim>& queries) const noexcept {
    float* sums = weights(row) + first;
    if (pass == 0) std::fill_n(sums, count, 0.0F);
    decode_weights(queries, keys(row), first, count, lse, tile, sums);
    if (pass + 1 < sizes.passes()) return;
    const float group = static_cast<float>(sizes.group());
    for (index_t i = 0; i < count; ++i) sums[i] /= group;
  }
  void clear_unheld_weights(index_t row) const noexcept {
    const index_t held = keys(row).held;
    std::fill_n(weights(row) + held, sizes.slots - held, 0.0F);
  }

  /// Everything of one (sequence, KV head), block after block.
  void whole_row(index_t row) const noexcept {
    const decode_keys<T> k = keys(row);
    decode_queries<KeyDim> queries;
    decode_tile tile;
    softmax_state<ValueDim> states[decode_heads];
    softmax_state<ValueDim> block[decode_heads];
    float lse[decode_heads];
    for (index_t pass = 0; pass < sizes.passes(); ++pass) {
      load(row, pass, queries);
      for (index_t h = 0; h < queries.heads; ++h) states[h] = {};
      for (index_t first = 0; first < k.held; first += decode_block) {
        decode_states(queries, k, first, k.block_at(first), tile, block);
        for (index_t h = 0; h < queries.heads; ++h) states[h].merge(block[h]);
      }
      finish(row, pass, states, lse);
      if (outputs.weights.data() == nullptr) continue;
      for (index_t first = 0; first < k.held; first += decode_block) {
        add_weights(row, pass, first, k.block_at(first), lse, tile, queries);
      }
    }
    if (outputs.weights.data() != nullptr) clear_unheld_weights(row);
  }

  /// The same in three rounds whose tasks are blocks of slots; the same kernels in the same merge order.
  void split(const host_context& ctx, const scratch<ValueDim>& s) const {
    const index_t blocks = sizes.blocks();
    const index_t passes = sizes.passes();
    ctx.parallel_for(sizes.rows() * passes * blocks, [&](index_t task) noexcept {
      const index_t first = task % blocks * decode_block;
      const index_t row = task / blocks / passes;
      const index_t pass = task / blocks % passes;
      const decode_keys<T> k = keys(row);
      if (first >= k.held) return;
      decode_queries<KeyDim> queries;
      decode_tile tile;
      load(row, pass, queries);
      decode_states(queries, k, first, k.block_at(first), tile, state_of(s, row, task % blocks, pass));
    });
    ctx.parallel_for(sizes.rows() * passes, [&](index_t task) noexcept {
      const index_t row = task / passes;
      const index_t pass = task % passes;
      softmax_state<ValueDim> states[decode_heads];
      for (index_t block = 0; block * decode_block < keys(row).held; ++block) {
        for (index_t h = 0; h < heads_of(pass); ++h) states[h].merge(state_of(s, row, block, pass)[h]);
      }
      finish(row, pass, states, s.lse + row * sizes.group() + pass * decode_heads);
    });
    if (outputs.weights.data() == nullptr) return;
    ctx.parallel_for(sizes.rows() * blocks, [&](index_t task) noexcept {
      const index_t row = task / blocks;
      const index_t first = task % blocks * decode_block;
      const decode_keys<T> k = keys(row);
      if (first == 0) clear_unheld_weights(row);
      if (first >= k.held) return;
      decode_queries<KeyDim> queries;
      decode_tile tile;
      for (index_t pass = 0; pass < passes; ++pass) {
        load(row, pass, queries);
        add_weights(row, pass, first, k.block_at(first), s.lse + row * sizes.group() + pass * decode_heads, tile,
                    queries);
      }
    });
  }

  softmax_state<ValueDim>* state_of(const scratch<ValueDim>& s, index_t row, index_t block,
                                    index_t pass) const noexcept {
    return s.states + (row * sizes.blocks() + block) * sizes.group() + pass * decode_heads;
  }
};

}  // namespace decode_verb

/// Bytes of the optional workspace of `decode_attention`: with it, few heads are spread over all threads.
template <class T, index_t KeyDim, index_t ValueDim>
std::size_t decode_workspace(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t query_heads) {
  carver count;
  static_cast<void>(
      decode_verb::scratch<ValueDim>::carve(count, {cache.sequences(), cache.kv_heads(), query_heads, cache.slots()}));
  return count.bytes();
}

/// Attention of the newest token of every sequence over what its cache holds.
///
/// q [sequences, query_heads, key_dim] and out [sequences, query_heads, value_dim], float or any scalar type; query head
/// h reads KV head h / (query_heads / kv_heads). Logits and sums are fp32 whatever T is. A head that holds nothing, or
/// nothing visible, gives zeros and an lse of -infinity. A NaN in a key or query makes the outputs of the query heads
/// that read it NaN, and no others.
///
/// Throws error, before anything is written, when an extent does not fit the cache, a row is not contiguous or has no
/// data, query_heads is no positive multiple of kv_heads, params are invalid, or a workspace is given that is smaller than decode_workspace(cache, query_heads).
/// Reads every held K and V row once for each 16 query heads of a group (twice K with weights). Allocates: no.
/// Determinism: equal inputs give equal bits, for any number of threads and with or without a workspace.
template <class Q, class T, index_t KeyDim, index_t ValueDim, class Out>
void decode_attention(const host_context& ctx, const step_view<Q>& q,
                      const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, const step_view<Out>& out,
                      const attention_params& params = {}, const attention_outputs& outputs = {},
                      const workspace& scratch = {}) {
  const index_t sequences = cache.sequences();
  const index_t query_heads = q.template extent<axis::head>();
  expects_equal("decode_attention: q.extent(sequence)", q.template extent<axis::sequence>(), sequences, "the cache");
  expects(query_heads >= 1 && query_heads % cache.kv_heads() == 0, "decode_attention: q.extent(head)", query_heads,
          "a positive multiple of the cache's KV heads");
  expects_equal("decode_attention: q.extent(dim)", q.template extent<axis::dim>(), KeyDim, "the cache");
  expects_rows("decode_attention: q", q);
  expects_equal("decode_attention: out.extent(sequence)", out.template extent<axis::sequence>(), sequences,
                "the cache");
  expects_equal("decode_attention: out.extent(head)", out.template extent<axis::head>(), query_heads, "q");
  expects_equal("decode_attention: out.extent(dim)", out.template extent<axis::dim>(), ValueDim, "the cache");
  expects_rows("decode_attention: out", out);
  if (outputs.lse.data() != nullptr) {
    expects_equal("decode_attention: lse.extent(sequence)", outputs.lse.extent<axis::sequence>(), sequences,
                  "the cache");
    expects_equal("decode_attention: lse.extent(head)", outputs.lse.extent<axis::head>(), query_heads, "q");
  }
  if (outputs.weights.data() != nullptr) {
    const auto& w = outputs.weights;
    expects_equal("decode_attention: weights.extent(sequence)", w.extent<axis::sequence>(), sequences, "the cache");
    expects_equal("decode_attention: weights.extent(head)", w.extent<axis::head>(), cache.kv_heads(), "the cache");
    expects_equal("decode_attention: weights.extent(slot)", w.extent<axis::slot>(), cache.slots(), "the cache");
    expects_rows("decode_attention: weights", w);
  }
  params.validate();

  const decode_verb::shape sizes{sequences, cache.kv_heads(), query_heads, cache.slots()};
  const decode_verb::job<Q, T, KeyDim, ValueDim, Out> job{q, cache, out, params, outputs, sizes};
  if (scratch.bytes != 0) {
    carver memory(scratch, "decode_attention");
    const auto parts = decode_verb::scratch<ValueDim>::carve(memory, sizes);
    // Whole heads are handed out where they divide evenly, or are many enough not to matter.
    if (sizes.rows() % ctx.threads() != 0 && sizes.rows() < 8 * ctx.threads()) {
      job.split(ctx, parts);
      return;
    }
  }
  ctx.parallel_for(sizes.rows(), [&](index_t row) noexcept { job.whole_row(row); });
}

KVPOP_NAMESPACE_END
