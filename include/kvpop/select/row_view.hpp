#pragma once

#include "kvpop/core/context.hpp"      // host_context
#include "kvpop/core/view_checks.hpp"  // view, expects_rows

KVPOP_NAMESPACE_BEGIN

/// One number a token, a row for each KV head (of one sequence or of many, one after another): [heads, tokens].
template <class T, class Memory = host_memory>
using row_view = view<T, Memory, axis::head, axis::token>;

/// The row of a head, or null when the view is the empty one that stands for an absent argument.
template <class T>
T* row_or_null(const row_view<T>& rows, index_t head) noexcept {
  return rows.data() == nullptr ? nullptr : rows.row(head);
}

/// How many tasks a verb splits its rows into: as many as may run at once, each with scratch of its own. Task i works on
/// the rows i, i + tasks, i + 2 tasks, ...
inline index_t row_tasks(const host_context& ctx, index_t rows) noexcept {
  return rows < ctx.threads() ? rows : index_t{ctx.threads()};
}

KVPOP_NAMESPACE_END
