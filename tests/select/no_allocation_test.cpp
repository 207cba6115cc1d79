#include <doctest/doctest.h>

#include <vector>

#include "kvpop/select/death_times.hpp"
#include "kvpop/select/death_times_fenwick.hpp"
#include "kvpop/select/pop.hpp"
#include "kvpop/select/top_k.hpp"
#include "support/counting_new.hpp"   // news_of
#include "support/select_oracle.hpp"  // priorities, counting

using kvpop::index_t;
using kvpop::row_view;

TEST_CASE("select: no verb allocates") {
  kvpop_test::generator g(1);
  const index_t n = 3000;
  const kvpop::budget limits{3, 17, 400};
  const std::vector<double> priority = kvpop_test::priorities(g, n);
  const std::vector<index_t> position = kvpop_test::counting(n);
  std::vector<index_t> out(static_cast<std::size_t>(n));
  std::vector<std::byte> memory(kvpop::top_k_workspace({}, 1, n, n) + kvpop::death_times_workspace({}, 1, n, limits) +
                                kvpop::death_times_fenwick_workspace({}, 1, n, limits));
  std::vector<int> grows;
  CHECK(kvpop_test::news_of([&] { grows.push_back(0); }) == 1);  // the counter counts
  const row_view<const double> row(priority.data(), {1, n});
  const row_view<index_t> target(out.data(), {1, n});
  const kvpop::workspace scratch{memory.data(), memory.size()};
  CHECK(kvpop_test::news_of([&] {
          kvpop::top_k({}, row, {position.data(), {1, n}}, target, kvpop::top_k_order::rank, scratch);
          kvpop::death_times({}, row, {}, target, limits, scratch);
          kvpop::death_times_fenwick({}, row, {}, target, limits, scratch);
          out[0] = kvpop::pop(priority.data(), position.data(), nullptr, n, {0, n});
        }) == 0);
}
