#pragma once

#include "kvpop/attention/softmax_state.hpp"  // no_logit
#include "kvpop/core/context.hpp"             // host_context
#include "kvpop/core/view_checks.hpp"         // step_view, expects_rows

KVPOP_NAMESPACE_BEGIN

/// Log-sum-exp of every query: [sequences, query_heads], natural log.
template <class T>
using lse_view = view<T, host_memory, axis::sequence, axis::head>;

/// Joins the attention of the same queries over two disjoint sets of keys, each given as its output [sequences,
/// query_heads, value_dim] and its lse [sequences, query_heads], into `out` and `lse`, which may be those of either part.
///
/// out = (out_a exp(lse_a - lse) + out_b exp(lse_b - lse)), lse = log(exp(lse_a) + exp(lse_b)). A part without keys has lse
/// -infinity and leaves the other as it is, whatever its output holds; two such parts give zeros and -infinity.
/// Throws error, before anything is written, when extents differ, a row is not contiguous or has no data. Allocates: no. Determinism: bits depend on inputs alone.
template <class A, class B, class Out>
void merge_attention(const host_context& ctx, const step_view<A>& out_a, const lse_view<const float>& lse_a,
                     const step_view<B>& out_b, const lse_view<const float>& lse_b, const step_view<Out>& out,
                     const lse_view<float>& lse) {
  const index_t sequences = out.template extent<axis::sequence>();
  const index_t heads = out.template extent<axis::head>();
  const index_t dim = out.template extent<axis::dim>();
  const auto check = [&](const char* name, const auto& part) {
    expects_extents(name, part, {sequences, heads, dim});
    expects_rows(name, part);
  };
  const auto check_lse = [&](const char* name, const auto& part) {
    expects_extents(name, part, {sequences, heads});
    expects_data(name, part);
  };
  check("merge_attention: out", out);
  check("merge_attention: out_a", out_a);
  check("merge_attention: out_b", out_b);
  check_lse("merge_attention: lse", lse);
  check_lse("merge_attention: lse_a", lse_a);
  check_lse("merge_attention: lse_b", lse_b);

  ctx.parallel_for(sequences * heads, [&](index_t task) noexcept {
    const index_t sequence = task / heads;
    const index_t head = task % heads;
    const float a = lse_a(sequence, head);
    const float b = lse_b(sequence, head);
    const float largest = a > b ? a : b;
    const float weight_a = is_no_logit(a) ? 0.0F : simd::exp(a - largest);
    const float weight_b = is_no_logit(b) ? 0.0F : simd::exp(b - largest);
    const float sum = weight_a + weight_b;
    const bool none = is_no_logit(a) && is_no_logit(b);
    const float share_a = none ? 0.0F : weight_a / sum;
    const float share_b = none ? 0.0F : weight_b / sum;
    const A* from_a = out_a.row(sequence, head);
    const B* from_b = out_b.row(sequence, head);
    Out* to = out.row(sequence, head);
    using traits_a = scalar_traits<typename step_view<A>::value_type>;
    using traits_b = scalar_traits<typename step_view<B>::value_type>;
    for (index_t d = 0; d < dim; ++d) {
      const float x = is_no_logit(a) ? 0.0F : traits_a::to_float(from_a[d]) * share_a;
      const float y = is_no_logit(b) ? 0.0F : traits_b::to_float(from_b[d]) * share_b;
      to[d] = scalar_traits<Out>::from_float(x + y);
    }
    lse(sequence, head) = none ? no_logit : largest + simd::log(sum);
  });
}

KVPOP_NAMESPACE_END
