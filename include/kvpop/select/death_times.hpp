#pragma once

#include <cstdint>  // std::uint8_t

#include "kvpop/cache/budget.hpp"         // budget
#include "kvpop/core/context.hpp"         // host_context
#include "kvpop/core/workspace.hpp"       // carver, workspace
#include "kvpop/select/bounded_heap.hpp"  // bounded_heap
#include "kvpop/select/row_view.hpp"      // row_view, row_or_null, row_tasks

/// Death times (docs/method.md section 2, "Running top-k"): death(t) is the first query position at which token t is no
/// longer held, so that `t <= q && q < death(t)` is the whole mask of a prefix under a budget.

KVPOP_NAMESPACE_BEGIN

/// How many of `tokens` tokens ever leave the window and are no sinks: positions sinks .. tokens - window - 1.
constexpr index_t eligible_tokens(index_t tokens, const budget& limits) noexcept {
  const index_t eligible = tokens - limits.window - limits.sinks;
  return eligible > 0 ? eligible : 0;
}

/// How many tokens are held beyond sinks and window at most.
constexpr index_t long_range_tokens(index_t tokens, const budget& limits) noexcept {
  const index_t eligible = eligible_tokens(tokens, limits);
  return limits.topk < eligible ? limits.topk : eligible;
}

/// Death times of one head, by a bounded heap over the eligible tokens; see death_times.
///
/// \param priority  [tokens] by position
/// \param pinned    [tokens] nonzero where pinned, or null; at most limits.topk eligible tokens are
/// \param death     [tokens] out
/// \param heap      room for long_range_tokens(tokens, limits) ranks
inline void death_times_of_head(const double* priority, const std::uint8_t* pinned, index_t* death, index_t tokens,
                                const budget& limits, rank* heap) noexcept {
  for (index_t t = 0; t < tokens; ++t) {
    death[t] = never;
  }
  bounded_heap<> held(heap, limits.topk);
  rank loser{};
  for (index_t t = limits.sinks; t < tokens - limits.window; ++t) {
    const bool takes_place = pinned != nullptr && pinned[t] != 0;
    const bool lost = takes_place ? held.remove_place(loser) : held.insert(rank_of(priority[t], t), loser);
    if (lost) {
      death[loser.position] = t + limits.window;
    }
  }
}

/// What both forms of death_times ask of their arguments; throws `error` naming the one that is wrong.
inline void expect_death_times(const row_view<const double>& priority, const row_view<const std::uint8_t>& pinned,
                               const row_view<index_t>& death, const budget& limits) {
  limits.validate();
  const index_t heads = priority.extent<axis::head>();
  const index_t tokens = priority.extent<axis::token>();
  expects(heads >= 0, "death_times: priority.extent(head)", heads, "at least 0");
  expects(tokens >= 0, "death_times: priority.extent(token)", tokens, "at least 0");
  expects_equal("death_times: death.extent(head)", death.extent<axis::head>(), heads, "priority");
  expects_equal("death_times: death.extent(token)", death.extent<axis::token>(), tokens, "priority");
  expects_rows("death_times: priority", priority);
  expects_rows("death_times: death", death);
  if (pinned.data() == nullptr) {
    return;
  }
  expects_equal("death_times: pinned.extent(head)", pinned.extent<axis::head>(), heads, "priority");
  expects_equal("death_times: pinned.extent(token)", pinned.extent<axis::token>(), tokens, "priority");
  expects_rows("death_times: pinned", pinned);
  for (index_t head = 0; head < heads; ++head) {
    index_t pins = 0;
    for (index_t t = limits.sinks; t < tokens - limits.window; ++t) {
      pins += index_t{pinned(head, t) != 0};
    }
    expects(pins <= limits.topk, "death_times: the number of pinned tokens of a head beyond sinks and window", pins,
            "at most budget.topk");
  }
}

/// Scratch of death_times: a heap of ranks for each row that is worked on at once.
inline rank* carve_death_times(carver& memory, const host_context& ctx, index_t heads, index_t tokens,
                               const budget& limits) {
  const index_t places = long_range_tokens(tokens, limits);
  return memory.take<rank>(checked_multiply(row_tasks(ctx, heads), places, "death_times: workspace"));
}

/// Bytes of workspace that death_times needs.
inline std::size_t death_times_workspace(const host_context& ctx, index_t heads, index_t tokens, const budget& limits) {
  carver count;
  carve_death_times(count, ctx, heads, tokens, limits);
  return count.bytes();
}

/// Death times of whole prefixes: for each token the first query position at which it is no longer held, or `never`.
///
/// Token t becomes eligible at query t + window, if it is no sink, and competes at once for the topk places; the loser
/// dies then (select/order.hpp). A pinned eligible token takes one of the places and is no candidate; with all places
/// pinned the newcomer loses.
///
/// \param priority   [heads, tokens] by position, from 0
/// \param pinned     [heads, tokens] nonzero where pinned; an empty view when nothing is
/// \param death      [heads, tokens] out
/// \param limits     sinks, window, topk; any of them may exceed the number of tokens
/// \param workspace  death_times_workspace
///
/// Throws `error` on unequal extents, rows that are not contiguous or have no data, a bad budget, more than topk pinned eligible tokens, a small workspace.
/// Complexity: O(tokens log topk) a head; reads 8 and writes 8 bytes a token (one byte more with pins).
/// Allocates: no. Parallel over heads. Determinism: equal for any thread count, compiler and instruction set.
inline void death_times(const host_context& ctx, const row_view<const double>& priority,
                        const row_view<const std::uint8_t>& pinned, const row_view<index_t>& death,
                        const budget& limits, const workspace& scratch) {
  expect_death_times(priority, pinned, death, limits);
  const index_t heads = priority.extent<axis::head>();
  const index_t tokens = priority.extent<axis::token>();
  carver memory(scratch, "death_times");
  rank* const heaps = carve_death_times(memory, ctx, heads, tokens, limits);
  const index_t tasks = row_tasks(ctx, heads);
  const index_t places = long_range_tokens(tokens, limits);
  ctx.parallel_for(tasks, [&](index_t task) noexcept {
    for (index_t head = task; head < heads; head += tasks) {
      death_times_of_head(priority.row(head), row_or_null(pinned, head), death.row(head), tokens, limits,
                          heaps + task * places);
    }
  });
}

KVPOP_NAMESPACE_END
