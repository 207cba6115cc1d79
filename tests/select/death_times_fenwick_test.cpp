#include "kvpop/select/death_times_fenwick.hpp"

#include <doctest/doctest.h>

#include "kvpop/core/thread_pool.hpp"  // thread_pool
#include "support/select_oracle.hpp"   // quadratic_death_times, priorities

using kvpop::budget;
using kvpop::host_context;
using kvpop::index_t;
using kvpop::row_view;
using kvpop_test::generator;

namespace {

struct rows {
  index_t heads;
  index_t tokens;
  std::vector<double> priority;
  std::vector<std::uint8_t> pinned;

  [[nodiscard]] row_view<const double> priorities() const { return {priority.data(), {heads, tokens}}; }
  [[nodiscard]] row_view<const std::uint8_t> pins() const { return {pinned.data(), {heads, tokens}}; }
};

rows random_rows(generator& g, index_t heads, index_t tokens, const budget& limits) {
  rows in{heads, tokens, kvpop_test::priorities(g, heads * tokens), {}};
  in.pinned.assign(in.priority.size(), 0);
  const double share = g.pick({0.0, 0.1, 0.5});
  for (index_t head = 0; head < heads; ++head) {
    index_t left = limits.topk;
    for (index_t t = limits.sinks; t < tokens - limits.window; ++t) {
      if (g.chance(share) && left-- > 0) {
        in.pinned[static_cast<std::size_t>(head * tokens + t)] = 1;
      }
    }
  }
  return in;
}

std::vector<index_t> by_fenwick(const host_context& ctx, const rows& in, const budget& limits) {
  std::vector<index_t> death(in.priority.size(), -7);
  std::vector<std::byte> scratch(kvpop::death_times_fenwick_workspace(ctx, in.heads, in.tokens, limits));
  kvpop::death_times_fenwick(ctx, in.priorities(), in.pins(), {death.data(), {in.heads, in.tokens}}, limits,
                             {scratch.data(), scratch.size()});
  return death;
}

std::vector<index_t> by_heap(const host_context& ctx, const rows& in, const budget& limits) {
  std::vector<index_t> death(in.priority.size(), -7);
  std::vector<std::byte> scratch(kvpop::death_times_workspace(ctx, in.heads, in.tokens, limits));
  kvpop::death_times(ctx, in.priorities(), in.pins(), {death.data(), {in.heads, in.tokens}}, limits,
                     {scratch.data(), scratch.size()});
  return death;
}

}  // namespace

TEST_CASE("death_times_fenwick: the quadratic oracle's and the heap's, for any budget and pins") {
  generator g(1);
  for (int draw = 0; draw < kvpop_test::draws(2000); ++draw) {
    const index_t tokens = kvpop_test::length(g, 67);
    const budget limits{g.pick<index_t>({0, 1, 4, g.integer(0, tokens + 3)}), g.integer(1, tokens + 3),
                        g.pick<index_t>({0, 1, 3, g.integer(0, tokens + 3)})};
    const rows in = random_rows(g, 1, tokens, limits);
    const std::vector<index_t> death = by_fenwick({}, in, limits);
    REQUIRE(death ==
            kvpop_test::quadratic_death_times(in.priority, in.pinned, {limits.sinks, limits.window, limits.topk}));
    REQUIRE(death == by_heap({}, in, limits));
  }
}

TEST_CASE("death_times_fenwick: equals the heap on long rows, for any thread count") {
  generator g(2);
  kvpop::thread_pool pool(3);
  for (int draw = 0; draw < kvpop_test::draws(60); ++draw) {
    const index_t tokens = g.integer(1000, 5000);
    const budget limits{g.integer(0, 9), g.integer(1, 300), g.pick<index_t>({0, 1, 64, 997, 4096})};
    const rows in = random_rows(g, g.integer(1, 5), tokens, limits);
    const std::vector<index_t> death = by_fenwick(pool.context(), in, limits);
    REQUIRE(death == by_heap({}, in, limits));
    REQUIRE(death == by_fenwick({}, in, limits));
    REQUIRE(death == by_heap(pool.context(), in, limits));
  }
}
