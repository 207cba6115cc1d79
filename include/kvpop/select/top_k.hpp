#pragma once

#include "kvpop/core/workspace.hpp"     // carver, workspace
#include "kvpop/select/order.hpp"       // order_key
#include "kvpop/select/radix_sort.hpp"  // radix_sort
#include "kvpop/select/row_view.hpp"    // row_view, row_or_null, row_tasks
#include "kvpop/select/select_kth.hpp"  // select_kth

KVPOP_NAMESPACE_BEGIN

/// The order in which top_k writes what it selected. What it selects does not depend on it.
enum class top_k_order {
  rank,         ///< the best first, as select/order.hpp ranks tokens: the default
  position,     ///< the earliest position first; costs a sort only where positions were passed
  unspecified,  ///< as comes cheapest
};

/// Scratch of top_k, an array of each kind for every task.
struct top_k_scratch {
  std::uint64_t* keys = nullptr;  ///< [tasks, tokens]
  std::uint32_t* bins = nullptr;  ///< [tasks, 2 * select_bins]
  keyed* items = nullptr;         ///< [tasks, 2 * valid]

  static top_k_scratch carve(carver& memory, index_t tasks, index_t tokens, index_t valid) {
    const char* const what = "top_k: workspace";
    return {memory.take<std::uint64_t>(checked_multiply(tasks, tokens, what)),
            memory.take<std::uint32_t>(checked_multiply(tasks, 2 * select_bins, what)),
            memory.take<keyed>(checked_multiply(checked_multiply(tasks, 2, what), valid, what))};
  }

  [[nodiscard]] top_k_scratch of_task(index_t task, index_t tokens, index_t valid) const noexcept {
    return {keys + task * tokens, bins + task * 2 * select_bins, items + task * 2 * valid};
  }
};

/// top_k of one row.
class top_k_row {
 public:
  /// \param position  [tokens] or null
  top_k_row(const double* priority, const index_t* position, index_t tokens, const top_k_scratch& scratch) noexcept
      : priority_(priority), position_(position), tokens_(tokens), scratch_(scratch) {}

  /// Writes the indices of the `valid` best tokens, 0 <= valid <= tokens.
  void select(index_t* index, index_t valid, top_k_order order) const noexcept {
    if (valid == tokens_) {
      for (index_t i = 0; i < valid; ++i) {
        index[i] = i;
      }
    } else if (valid > 0) {
      write_best(index, valid);
    }
    if (order == top_k_order::rank) {
      sort_by_rank(index, valid);
    } else if (order == top_k_order::position && position_ != nullptr) {
      sort_by_position(index, valid);
    }
  }

 private:
  [[nodiscard]] std::uint64_t key(index_t i) const noexcept { return order_key(priority_[i]); }

  // The position as an unsigned key of the same order.
  [[nodiscard]] std::uint64_t position_key(index_t i) const noexcept {
    return static_cast<std::uint64_t>(position_[i]) ^ (std::uint64_t{1} << 63);
  }

  void write_best(index_t* index, index_t valid) const noexcept {
    for (index_t i = 0; i < tokens_; ++i) {
      scratch_.keys[i] = key(i);
    }
    const kth_key weakest = select_kth(scratch_.keys, tokens_, valid, scratch_.bins);
    if (position_ == nullptr) {
      write_by_index(index, valid, weakest);
    } else {
      write_by_position(index, valid, weakest);
    }
  }

  // Of the tokens that tie with the weakest selected one, the later ones are selected: the first few are skipped.
  void write_by_index(index_t* index, index_t valid, const kth_key& weakest) const noexcept {
    index_t skip = weakest.equal - weakest.among_best;
    index_t written = 0;
    for (index_t i = 0; written < valid; ++i) {
      const std::uint64_t k = key(i);
      const bool ties = k == weakest.key;
      index[written] = i;
      written += index_t{(k > weakest.key) | (ties & (skip <= 0))};
      skip -= index_t{ties};
    }
  }

  // Of the tokens that tie with the weakest selected one, those of the latest positions are selected.
  void write_by_position(index_t* index, index_t valid, const kth_key& weakest) const noexcept {
    index_t ties = 0;
    for (index_t i = 0; ties < weakest.equal; ++i) {
      scratch_.keys[ties] = position_key(i);
      ties += index_t{key(i) == weakest.key};
    }
    const kth_key earliest = select_kth(scratch_.keys, ties, weakest.among_best, scratch_.bins);
    index_t repeated = earliest.among_best;
    index_t written = 0;
    for (index_t i = 0; written < valid; ++i) {
      const std::uint64_t k = key(i);
      const bool tie = k == weakest.key;
      const bool same = tie & (position_key(i) == earliest.key);
      index[written] = i;
      written += index_t{(k > weakest.key) | (tie & (position_key(i) > earliest.key)) | (same & (repeated > 0))};
      repeated -= index_t{same};
    }
  }

  // radix_sort is stable, so what decides ties comes first: later positions, and of equal ones the smaller index.
  void sort_by_rank(index_t* index, index_t valid) const noexcept {
    keyed* const items = scratch_.items;
    for (index_t i = 0; i < valid; ++i) {
      const index_t from = position_ == nullptr ? index[valid - 1 - i] : index[i];
      items[i] = {position_ == nullptr ? 0 : ~position_key(from), from};
    }
    radix_sort(items, items + valid, valid);
    for (index_t i = 0; i < valid; ++i) {
      items[i].key = ~key(items[i].value);
    }
    sort_items(index, valid);
  }

  void sort_by_position(index_t* index, index_t valid) const noexcept {
    for (index_t i = 0; i < valid; ++i) {
      scratch_.items[i] = {position_key(index[i]), index[i]};
    }
    sort_items(index, valid);
  }

  void sort_items(index_t* index, index_t valid) const noexcept {
    radix_sort(scratch_.items, scratch_.items + valid, valid);
    for (index_t i = 0; i < valid; ++i) {
      index[i] = scratch_.items[i].value;
    }
  }

  const double* priority_;
  const index_t* position_;
  index_t tokens_;
  top_k_scratch scratch_;
};

/// Bytes of workspace that top_k needs for [heads, tokens] priorities and [heads, k] indices.
inline std::size_t top_k_workspace(const host_context& ctx, index_t heads, index_t tokens, index_t k) {
  carver count;
  top_k_scratch::carve(count, row_tasks(ctx, heads), tokens, k < tokens ? k : tokens);
  return count.bytes();
}

/// Selects the k best tokens of each row, where k is what a row of `index` has room for.
///
/// Three promises, each of its own; all hold for every thread count, compiler, instruction set and floating-point flag.
/// * The set: exactly the min(k, tokens) tokens that select/order.hpp ranks highest. NaN is the lowest priority but a
///   token with it is one like any other: it is selected when nothing better is left.
/// * The ties: of equal priorities the later position is better, so no more than one set is right. (The positions
///   of a row are meant to be distinct; of tokens at the same position the smaller index is better.)
/// * The order of the indices within a row: `order`, by default the most reproducible one.
///
/// \param priority  [heads, tokens] any doubles
/// \param position  [heads, tokens] absolute positions; an empty view when they are the indices themselves
/// \param index     [heads, k] out: indices into the row of priorities, -1 beyond the valid ones
/// \param order     see top_k_order
/// \param scratch   top_k_workspace
/// \return how many indices of each row are valid: min(k, tokens)
///
/// Throws `error` on unequal extents, rows that are not contiguous or have no data, 2^32 tokens or more, a small workspace.
/// Complexity: O(tokens + k) a row, whatever the priorities. Allocates: no. Parallel over heads.
inline index_t top_k(const host_context& ctx, const row_view<const double>& priority,
                     const row_view<const index_t>& position, const row_view<index_t>& index, top_k_order order,
                     const workspace& scratch) {
  const index_t heads = priority.extent<axis::head>();
  const index_t tokens = priority.extent<axis::token>();
  const index_t k = index.extent<axis::token>();
  expects(heads >= 0, "top_k: priority.extent(head)", heads, "at least 0");
  expects(tokens >= 0 && tokens < (index_t{1} << 32), "top_k: priority.extent(token)", tokens, "in 0 .. 2^32 - 1");
  expects(k >= 0, "top_k: index.extent(token)", k, "at least 0");
  expects_equal("top_k: index.extent(head)", index.extent<axis::head>(), heads, "priority");
  if (position.data() != nullptr) {
    expects_equal("top_k: position.extent(head)", position.extent<axis::head>(), heads, "priority");
    expects_equal("top_k: position.extent(token)", position.extent<axis::token>(), tokens, "priority");
    expects_rows("top_k: position", position);
  }
  expects_rows("top_k: priority", priority);
  expects_rows("top_k: index", index);
  const index_t valid = k < tokens ? k : tokens;
  const index_t tasks = row_tasks(ctx, heads);
  carver memory(scratch, "top_k");
  const top_k_scratch all = top_k_scratch::carve(memory, tasks, tokens, valid);
  ctx.parallel_for(tasks, [&](index_t task) noexcept {
    const top_k_scratch own = all.of_task(task, tokens, valid);
    for (index_t head = task; head < heads; head += tasks) {
      index_t* const row = index.row(head);
      top_k_row(priority.row(head), row_or_null(position, head), tokens, own).select(row, valid, order);
      for (index_t i = valid; i < k; ++i) {
        row[i] = -1;
      }
    }
  });
  return valid;
}

KVPOP_NAMESPACE_END
