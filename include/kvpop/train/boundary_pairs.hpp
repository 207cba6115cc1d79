#pragma once

#include "kvpop/select/bounded_heap.hpp"  // bounded_heap
#include "kvpop/select/death_times.hpp"   // eligible_tokens, long_range_tokens

KVPOP_NAMESPACE_BEGIN

/// A comparison that decides who stays: at query `query` the token `entering` leaves the window and meets `boundary`, the
/// weakest of the topk best among the other eligible tokens (docs/method.md section 5; KVpop, arXiv 2607.05061).
struct boundary_pair {
  index_t query;
  index_t entering;  // query - window
  index_t boundary;
  bool wins;  // whether the teacher keeps `entering`
};

/// Pairs of one head at most: one for every query at which topk other tokens are eligible.
[[nodiscard]] constexpr index_t max_boundary_pairs(index_t tokens, const budget& limits) noexcept {
  const index_t eligible = eligible_tokens(tokens, limits);
  return limits.topk > 0 && eligible > limits.topk ? eligible - limits.topk : 0;
}

/// All boundary pairs of one head, by query. Queries with fewer than topk other eligible tokens have none.
///
/// \param priority  [tokens] the teacher's: target with its decay folded in, by position
/// \param heap      room for long_range_tokens(tokens, limits) ranks
/// \param pairs     room for max_boundary_pairs(tokens, limits)
/// \return how many pairs there are
///
/// Ties and NaN as in select/order.hpp. O(tokens log topk). Does not allocate.
inline index_t boundary_pairs(const double* priority, index_t tokens, const budget& limits, rank* heap,
                              boundary_pair* pairs) noexcept {
  bounded_heap<> best(heap, limits.topk);
  index_t count = 0;
  rank loser{};
  for (index_t t = limits.sinks; t < tokens - limits.window; ++t) {
    const rank entering = rank_of(priority[t], t);
    if (limits.topk > 0 && best.size() == limits.topk) {
      const rank boundary = best.entries()[0];
      pairs[count++] = {t + limits.window, t, boundary.position, outranks(entering, boundary)};
    }
    best.insert(entering, loser);
  }
  return count;
}

KVPOP_NAMESPACE_END
