#include "kvpop/select/row_view.hpp"

#include <doctest/doctest.h>

#include "kvpop/core/thread_pool.hpp"  // thread_pool

TEST_CASE("row_tasks: a task for each thread, but no more than rows") {
  kvpop::thread_pool pool(3);
  CHECK(kvpop::row_tasks({}, 7) == 1);
  CHECK(kvpop::row_tasks(pool.context(), 7) == 3);
  CHECK(kvpop::row_tasks(pool.context(), 2) == 2);
  CHECK(kvpop::row_tasks(pool.context(), 0) == 0);
}

TEST_CASE("row_or_null: the row, or null of the empty view") {
  const double numbers[] = {1, 2, 3, 4, 5, 6};
  const kvpop::row_view<const double> rows(numbers, {2, 2}, {3, 1});
  CHECK(kvpop::row_or_null(rows, 1) == numbers + 3);
  CHECK(kvpop::row_or_null(kvpop::row_view<const double>{}, 1) == nullptr);
}
