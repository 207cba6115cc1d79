#pragma once

#include <cmath>
#include <cstdint>

#include "kvpop/attention/transposed.hpp"  // transposed_attention

KVPOP_NAMESPACE_BEGIN

/// How the query heads of a group are joined.
enum class group_aggregate : std::uint8_t { max, mean };

/// Optional arguments of `future_attention`.
struct future_params {
  transposed_params transposed = {};  ///< its delay is the protected window, docs/method.md section 3
  group_aggregate aggregate = group_aggregate::max;
  double epsilon = 1e-6;  ///< added to the mass before the logarithm: greater than 0
};

/// Bytes of workspace that `future_attention` takes: 16 + 4 * query_heads a token, and a constant a thread.
inline std::size_t future_workspace(const host_context& ctx, index_t sequences, index_t tokens, index_t query_heads,
                                    index_t kv_heads, index_t key_dim) {
  carver count;
  count.take<float>(checked_multiply(checked_multiply(sequences, query_heads, "future_attention: query_heads"), tokens,
                                     "future_attention: tokens"));
  count.take<std::byte>(
      static_cast<index_t>(transposed_workspace(ctx, sequences, tokens, query_heads, kv_heads, key_dim)));
  return count.bytes();
}

/// The training target: the logarithm of the attention that each token will receive once it has left the window
/// (docs/method.md section 3; KVpop, arXiv 2607.05061).
///
///     target(h, t) = aggregate over the group's query heads g of log(epsilon + m(g, t))
///
/// with m from `transposed_attention`, whose arguments these are.
///
/// target  [sequences, kv_heads, keys], natural log, out
///
/// Errors, before anything is written: those of `transposed_attention`; epsilon not greater than 0; a workspace below
/// `future_workspace`. O(tokens) memory; does not allocate.
template <class Q, class K, reduction R>
void future_attention(const host_context& ctx, const chunk_view<Q>& q, const chunk_view<K>& k,
                      const chunk_lse_view<const float>& lse, const R& reduce,
                      const view<float, host_memory, axis::sequence, axis::head, axis::token>& target,
                      const future_params& params, const workspace& memory) {
  const index_t sequences = k.extents()[0];
  const index_t tokens = k.extents()[1];
  const index_t kv_heads = k.extents()[2];
  const index_t query_heads = q.extents()[2];
  const index_t keys = target.extents()[2];
  expects(kv_heads >= 1, "future_attention: k.extent(head)", kv_heads, "at least 1");
  expects_equal("future_attention: target.extent(sequence)", target.extents()[0], sequences, "k");
  expects_equal("future_attention: target.extent(head)", target.extents()[1], kv_heads, "k");
  expects(keys <= tokens, "future_attention: target.extent(token)", keys, "at most the tokens");
  expects_data("future_attention: target", target);
  if (std::bit_cast<std::uint64_t>(params.epsilon) - 1U >= 0x7fefffffffffffffU) [[unlikely]] {
    fail("future_params.epsilon is " + std::to_string(params.epsilon) + "; it must be finite and greater than 0");
  }
  carver arrays(memory, "future_attention");
  float* const mass = arrays.take<float>(sequences * query_heads * tokens);
  const std::size_t rest = transposed_workspace(ctx, sequences, tokens, query_heads, kv_heads, k.extents()[3]);
  std::byte* const scratch = arrays.take<std::byte>(static_cast<index_t>(rest));
  const view<float, host_memory, axis::sequence, axis::head, axis::token> masses(mass, {sequences, query_heads, keys});
  transposed_attention(ctx, q, k, lse, reduce, masses, params.transposed, {scratch, rest});

  const index_t group = query_heads / kv_heads;
  ctx.parallel_for(sequences * kv_heads, [&](index_t row) noexcept {
    const index_t b = row / kv_heads;
    const index_t h = row % kv_heads;
    for (index_t t = 0; t < keys; ++t) {
      double largest = 0;
      double sum = 0;
      for (index_t g = 0; g < group; ++g) {
        const double value = std::log(params.epsilon + static_cast<double>(masses(b, h * group + g, t)));
        sum += value;
        largest = g == 0 || value > largest || value != value ? value : largest;
      }
      target(b, h, t) =
          static_cast<float>(params.aggregate == group_aggregate::max ? largest : sum / static_cast<double>(group));
    }
  });
}

KVPOP_NAMESPACE_END
