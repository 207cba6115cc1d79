#include "kvpop/select/death_times.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

#include "kvpop/core/thread_pool.hpp"  // thread_pool
#include "kvpop/select/priority.hpp"   // widen
#include "support/golden.hpp"          // golden
#include "support/message_of.hpp"      // message_of
#include "support/select_oracle.hpp"   // quadratic_death_times, priorities

using kvpop::budget;
using kvpop::host_context;
using kvpop::index_t;
using kvpop::row_view;
using kvpop_test::generator;
using kvpop_test::message_of;

namespace {

struct rows {
  index_t heads;
  index_t tokens;
  std::vector<double> priority;
  std::vector<std::uint8_t> pinned;
};

std::vector<index_t> death_times(const host_context& ctx, rows& in, const budget& limits, bool pins) {
  std::vector<index_t> death(in.priority.size(), -7);
  std::vector<std::byte> scratch(kvpop::death_times_workspace(ctx, in.heads, in.tokens, limits));
  kvpop::death_times(
      ctx, row_view<const double>(in.priority.data(), {in.heads, in.tokens}),
      pins ? row_view<const std::uint8_t>(in.pinned.data(), {in.heads, in.tokens}) : row_view<const std::uint8_t>{},
      row_view<index_t>(death.data(), {in.heads, in.tokens}), limits, {scratch.data(), scratch.size()});
  return death;
}

}  // namespace

TEST_CASE("death_times: death.* of the golden data, exactly") {
  const auto all = golden::params();
  int found = 0;
  for (int i = 0; golden::method().has("death." + std::to_string(i) + ".death"); ++i) {
    const std::string name = "death." + std::to_string(i);
    const auto& p = all.at(name);
    const budget limits{p.at("sinks").get<index_t>(), p.at("window").get<index_t>(), p.at("topk").get<index_t>()};
    const auto priority = golden::tensor<float>(name + ".priority");
    const auto expected = golden::tensor<std::int32_t>(name + ".death");
    rows in{1, priority.shape[0], {}, {}};
    for (const float p32 : priority.values) {
      in.priority.push_back(kvpop::widen(p32));  // the hardware may read denormals as zero under -ffast-math
    }
    const std::vector<index_t> death = death_times(host_context{}, in, limits, false);
    for (std::size_t t = 0; t < death.size(); ++t) {
      CAPTURE(name);
      CAPTURE(t);
      CHECK(death[t] == (expected.values[t] == 0x7fffffff ? kvpop::never : index_t{expected.values[t]}));
    }
    ++found;
  }
  CHECK(found == 8);
}

TEST_CASE("death_times: chain_*.death of the golden data, exactly, from its priorities") {
  for (const std::string name : {"chain_mlp", "chain_mlstm"}) {
    const auto p = golden::params().at(name);
    const budget limits{p.at("sinks").get<index_t>(), p.at("window").get<index_t>(), p.at("topk").get<index_t>()};
    const auto priority = golden::tensor<double>(name + ".priority");
    const auto expected = golden::tensor<std::int32_t>(name + ".death");
    rows in{priority.shape[0], priority.shape[1], priority.values, {}};
    const std::vector<index_t> death = death_times(host_context{}, in, limits, false);
    for (std::size_t i = 0; i < death.size(); ++i) {
      CHECK(death[i] == (expected.values[i] == 0x7fffffff ? kvpop::never : index_t{expected.values[i]}));
    }
  }
}

TEST_CASE("death_times: the quadratic oracle's, for any budget, pins and thread count") {
  generator g(1);
  kvpop::thread_pool pool(3);
  for (int draw = 0; draw < kvpop_test::draws(2000); ++draw) {
    const index_t tokens = kvpop_test::length(g, 67);
    const index_t heads = g.integer(0, 4);
    const budget limits{g.pick<index_t>({0, 1, 4, g.integer(0, tokens + 3)}), g.integer(1, tokens + 3),
                        g.pick<index_t>({0, 1, 3, g.integer(0, tokens + 3)})};
    const bool pins = g.chance(0.5);
    rows in{heads, tokens, kvpop_test::priorities(g, heads * tokens), {}};
    in.pinned.assign(in.priority.size(), 0);
    for (index_t head = 0; pins && head < heads; ++head) {
      index_t left = g.chance(0.3) ? limits.topk : g.integer(0, limits.topk);
      for (index_t t = 0; t < tokens; ++t) {
        const bool eligible = t >= limits.sinks && t < tokens - limits.window;
        if (g.chance(0.3) && (!eligible || left-- > 0)) {
          in.pinned[static_cast<std::size_t>(head * tokens + t)] = 1;
        }
      }
    }
    std::vector<index_t> expected;
    for (index_t head = 0; head < heads; ++head) {
      const auto from = head * tokens;
      const std::vector<index_t> one = kvpop_test::quadratic_death_times(
          {in.priority.begin() + from, in.priority.begin() + from + tokens},
          {in.pinned.begin() + from, in.pinned.begin() + from + tokens}, {limits.sinks, limits.window, limits.topk});
      expected.insert(expected.end(), one.begin(), one.end());
    }
    REQUIRE(death_times(host_context{}, in, limits, pins) == expected);
    REQUIRE(death_times(pool.context(), in, limits, pins) == expected);
  }
}

TEST_CASE("death_times: rows may be strided") {
  const std::vector<double> priority = {3, 1, 2, 9, 9, 5, 6, 4, 9, 9};  // [2, 3] in rows of 5
  std::vector<index_t> death(8, -1);                                    // [2, 3] in rows of 4
  std::vector<std::byte> scratch(kvpop::death_times_workspace({}, 2, 3, {0, 1, 1}));
  kvpop::death_times({}, row_view<const double>(priority.data(), {2, 3}, {5, 1}), {},
                     row_view<index_t>(death.data(), {2, 3}, {4, 1}), {0, 1, 1}, {scratch.data(), scratch.size()});
  CHECK(death == std::vector<index_t>{kvpop::never, 2, kvpop::never, -1, 2, kvpop::never, kvpop::never, -1});
}

TEST_CASE("death_times: a window, sinks or places beyond any length") {
  rows in{1, 5, {1, 2, 3, 4, 5}, {}};
  const std::vector<index_t> all(5, kvpop::never);
  CHECK(death_times(host_context{}, in, {0, 2000000000, 0}, false) == all);
  CHECK(death_times(host_context{}, in, {2000000000, 1, 0}, false) == all);
  CHECK(death_times(host_context{}, in, {0, 1, 2000000000}, false) == all);
  CHECK(death_times(host_context{}, in, {0, 1, 0}, false) == std::vector<index_t>{1, 2, 3, 4, kvpop::never});
}

TEST_CASE("death_times: what is wrong is named, and death is not touched") {
  std::vector<double> priority(12, 0.0);
  std::vector<std::uint8_t> pinned(12, 1);
  std::vector<index_t> death(12, -7);
  alignas(64) std::array<std::byte, 4096> scratch;
  const row_view<const double> p(priority.data(), {3, 4});
  const row_view<index_t> d(death.data(), {3, 4});
  const kvpop::workspace enough{scratch.data(), scratch.size()};
  const auto call = [&](const row_view<const std::uint8_t>& pins, const row_view<index_t>& out, const budget& limits,
                        const kvpop::workspace& memory) {
    return message_of([&] { kvpop::death_times({}, p, pins, out, limits, memory); });
  };
  CHECK(call({}, d, {0, 0, 1}, enough) ==
        "kvpop: budget.window is 0; it must be at least 1: a token always sees itself");
  CHECK(call({}, row_view<index_t>(death.data(), {3, 3}), {0, 1, 1}, enough) ==
        "kvpop: death_times: death.extent(token) is 3; priority has 4");
  CHECK(call({}, row_view<index_t>(death.data(), {2, 4}), {0, 1, 1}, enough) ==
        "kvpop: death_times: death.extent(head) is 2; priority has 3");
  CHECK(call(row_view<const std::uint8_t>(pinned.data(), {3, 3}), d, {0, 1, 1}, enough) ==
        "kvpop: death_times: pinned.extent(token) is 3; priority has 4");
  CHECK(call(row_view<const std::uint8_t>(pinned.data(), {3, 4}), d, {1, 1, 1}, enough) ==
        "kvpop: death_times: the number of pinned tokens of a head beyond sinks and window is 2; it must be at most "
        "budget.topk");
  CHECK(call({pinned.data(), {3, 4}, {4, 2}}, d, {0, 1, 1}, enough) ==
        "kvpop: death_times: pinned.stride(token) is 2; it must be 1");
  CHECK(call({}, {death.data(), {3, 4}, {1, 3}}, {0, 1, 1}, enough) ==
        "kvpop: death_times: death.stride(token) is 3; it must be 1");
  CHECK(call({}, {nullptr, {3, 4}}, {0, 1, 1}, enough) == "kvpop: death_times: death has no data");
  const auto from = [&](const row_view<const double>& x) {
    return message_of([&] { kvpop::death_times({}, x, {}, d, {0, 1, 1}, enough); });
  };
  CHECK(from({priority.data(), {3, 4}, {4, 0}}) == "kvpop: death_times: priority.stride(token) is 0; it must be 1");
  CHECK(from({nullptr, {3, 4}}) == "kvpop: death_times: priority has no data");
  CHECK(call({}, d, {0, 1, 3}, {scratch.data(), 10}) ==
        "kvpop: death_times: workspace.bytes is 10; at least 48 are needed");
  CHECK(death == std::vector<index_t>(12, -7));
  CHECK(call(row_view<const std::uint8_t>(pinned.data(), {3, 4}), d, {1, 1, 2}, enough) == "no error");
}
