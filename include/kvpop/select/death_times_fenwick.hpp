#pragma once

#include "kvpop/select/death_times.hpp"   // what a death time is; expect_death_times
#include "kvpop/select/fenwick_tree.hpp"  // fenwick_tree
#include "kvpop/select/radix_sort.hpp"    // radix_sort

/// Death times in the paper's form (KVpop, arXiv 2607.05061): ranks and a cutoff for each query.

KVPOP_NAMESPACE_BEGIN

/// Scratch of death_times_fenwick, an array of each kind for every task; e is the number of eligible tokens.
struct fenwick_scratch {
  keyed* order = nullptr;    ///< [tasks, 2 e] eligible tokens from weakest to strongest, and room to sort them
  index_t* place = nullptr;  ///< [tasks, e] of each eligible token, oldest first, its place in that order, from 1
  index_t* tree = nullptr;   ///< [tasks, e + 1]

  static fenwick_scratch carve(carver& memory, index_t tasks, index_t eligible) {
    const char* const what = "death_times_fenwick: workspace";
    const index_t all = checked_multiply(tasks, checked_add(eligible, 1, what), what);
    return {memory.take<keyed>(checked_multiply(2, all, what)), memory.take<index_t>(all), memory.take<index_t>(all)};
  }

  [[nodiscard]] fenwick_scratch of_task(index_t task, index_t eligible) const noexcept {
    const index_t skipped = task * (eligible + 1);
    return {order + 2 * skipped, place + skipped, tree + skipped};
  }
};

/// Death times of one head by a Fenwick tree over ranks; arguments as of death_times_of_head.
///
/// All eligible tokens of the prefix are ranked first. While `places` of them are held, the weakest held one is the
/// `places`-th strongest of those inserted so far, the dead included: it is the cutoff that a newcomer must outrank,
/// found by binary lifting.
inline void death_times_of_head_fenwick(const double* priority, const std::uint8_t* pinned, index_t* death,
                                        index_t tokens, const budget& limits, const fenwick_scratch& scratch) noexcept {
  const index_t eligible = eligible_tokens(tokens, limits);
  for (index_t t = 0; t < tokens; ++t) {
    death[t] = never;
  }
  for (index_t i = 0; i < eligible; ++i) {
    scratch.order[i] = {order_key(priority[limits.sinks + i]), i};
  }
  // Stable, and handed over oldest first: so equal priorities are in the order of their positions.
  radix_sort(scratch.order, scratch.order + eligible, eligible);
  for (index_t i = 0; i < eligible; ++i) {
    scratch.place[scratch.order[i].value] = i + 1;
  }
  fenwick_tree inserted(scratch.tree, eligible);
  index_t places = limits.topk;
  for (index_t i = 0; i < eligible; ++i) {
    const bool takes_place = pinned != nullptr && pinned[limits.sinks + i] != 0;
    index_t loser = -1;
    if (places == 0) {
      loser = i;
    } else if (inserted.total() >= places) {
      const index_t cutoff = inserted.find(inserted.total() - places + 1);
      const bool loses = !takes_place && scratch.place[i] < cutoff;
      loser = loses ? i : scratch.order[cutoff - 1].value;
    }
    if (loser >= 0) {
      death[limits.sinks + loser] = limits.sinks + i + limits.window;
    }
    if (takes_place) {
      --places;
    } else {
      inserted.add(scratch.place[i]);
    }
  }
}

/// Bytes of workspace that death_times_fenwick needs.
inline std::size_t death_times_fenwick_workspace(const host_context& ctx, index_t heads, index_t tokens,
                                                 const budget& limits) {
  carver count;
  fenwick_scratch::carve(count, row_tasks(ctx, heads), eligible_tokens(tokens, limits));
  return count.bytes();
}

/// death_times by one Fenwick tree over ranks a head: the same result on every input, arguments and errors alike.
///
/// death_times is faster and needs less memory; this is the paper's form, an independent check on it.
///
/// \param scratch  death_times_fenwick_workspace
///
/// Complexity: O(tokens log tokens) time and O(tokens) memory a head.
/// Allocates: no. Parallel over heads. Determinism: equal for any thread count, compiler and instruction set.
inline void death_times_fenwick(const host_context& ctx, const row_view<const double>& priority,
                                const row_view<const std::uint8_t>& pinned, const row_view<index_t>& death,
                                const budget& limits, const workspace& scratch) {
  expect_death_times(priority, pinned, death, limits);
  const index_t heads = priority.extent<axis::head>();
  const index_t tokens = priority.extent<axis::token>();
  const index_t tasks = row_tasks(ctx, heads);
  const index_t eligible = eligible_tokens(tokens, limits);
  carver memory(scratch, "death_times_fenwick");
  const fenwick_scratch all = fenwick_scratch::carve(memory, tasks, eligible);
  ctx.parallel_for(tasks, [&](index_t task) noexcept {
    const fenwick_scratch own = all.of_task(task, eligible);
    for (index_t head = task; head < heads; head += tasks) {
      death_times_of_head_fenwick(priority.row(head), row_or_null(pinned, head), death.row(head), tokens, limits, own);
    }
  });
}

KVPOP_NAMESPACE_END
