#include "kvpop/select/top_k.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "kvpop/core/thread_pool.hpp"  // thread_pool
#include "support/message_of.hpp"      // message_of
#include "support/select_oracle.hpp"   // best_of, priorities

using kvpop::host_context;
using kvpop::index_t;
using kvpop::row_view;
using kvpop::top_k_order;
using kvpop_test::generator;
using kvpop_test::message_of;

namespace {

struct rows {
  index_t heads;
  index_t tokens;
  std::vector<double> priority;
  std::vector<index_t> position;  // empty: the indices
};

struct result {
  index_t valid;
  std::vector<index_t> index;
};

result top_k(const host_context& ctx, const rows& in, index_t k, top_k_order order) {
  result out{0, std::vector<index_t>(static_cast<std::size_t>(in.heads * k), -7)};
  std::vector<std::byte> scratch(kvpop::top_k_workspace(ctx, in.heads, in.tokens, k));
  out.valid = kvpop::top_k(ctx, {in.priority.data(), {in.heads, in.tokens}},
                           in.position.empty() ? row_view<const index_t>{}
                                               : row_view<const index_t>{in.position.data(), {in.heads, in.tokens}},
                           {out.index.data(), {in.heads, k}}, order, {scratch.data(), scratch.size()});
  return out;
}

/// The indices the oracle selects from one row, the best first.
std::vector<index_t> oracle(const rows& in, index_t head, index_t k) {
  const auto from = head * in.tokens;
  const std::vector<double> priority(in.priority.begin() + from, in.priority.begin() + from + in.tokens);
  std::vector<index_t> position = kvpop_test::counting(in.tokens);
  if (!in.position.empty()) {
    position.assign(in.position.begin() + from, in.position.begin() + from + in.tokens);
  }
  return kvpop_test::best_of(priority, position, kvpop_test::counting(in.tokens), k);
}

rows random_rows(generator& g, index_t heads, index_t tokens) {
  rows in{heads, tokens, kvpop_test::priorities(g, heads * tokens), {}};
  if (g.chance(0.5)) {
    const index_t base = g.pick<index_t>({0, (index_t{1} << 31) - 100, (index_t{1} << 40) - 100});
    for (index_t head = 0; head < heads; ++head) {
      for (index_t t = 0; t < tokens; ++t) {
        in.position.push_back(base + 5 * t);
      }
      for (index_t t = tokens - 1; t > 0; --t) {
        std::swap(in.position[static_cast<std::size_t>(head * tokens + t)],
                  in.position[static_cast<std::size_t>(head * tokens + g.integer(0, t))]);
      }
    }
  }
  return in;
}

void check_all_promises(const host_context& ctx, const rows& in, index_t k) {
  const result ranked = top_k(ctx, in, k, top_k_order::rank);
  result placed = top_k(ctx, in, k, top_k_order::position);
  result cheap = top_k(ctx, in, k, top_k_order::unspecified);
  const index_t valid = std::min(k, in.tokens);
  REQUIRE(ranked.valid == valid);
  REQUIRE(placed.valid == valid);
  REQUIRE(cheap.valid == valid);
  for (index_t head = 0; head < in.heads; ++head) {
    std::vector<index_t> expected = oracle(in, head, k);
    expected.resize(static_cast<std::size_t>(k), -1);
    const auto from = head * k;
    const auto row = [&](const result& r) {
      return std::vector<index_t>(r.index.begin() + from, r.index.begin() + from + k);
    };
    REQUIRE(row(ranked) == expected);
    std::vector<index_t> by_position = expected;
    std::sort(by_position.begin(), by_position.begin() + valid, [&](index_t a, index_t b) {
      const auto at = [&](index_t i) {
        return in.position.empty() ? i : in.position[static_cast<std::size_t>(head * in.tokens + i)];
      };
      return at(a) < at(b);
    });
    REQUIRE(row(placed) == by_position);
    std::vector<index_t> any = row(cheap);
    std::sort(any.begin(), any.begin() + valid);
    std::sort(expected.begin(), expected.begin() + valid);
    REQUIRE(any == expected);
  }
}

}  // namespace

TEST_CASE("top_k: set, ties and order are those of a full sort, for any k, positions and thread count") {
  generator g(1);
  kvpop::thread_pool pool(3);
  for (int draw = 0; draw < kvpop_test::draws(2000); ++draw) {
    const index_t tokens = kvpop_test::length(g, 260);
    const rows in = random_rows(g, g.integer(0, 4), tokens);
    const index_t k = g.pick<index_t>({0, 1, tokens, tokens + 3, g.integer(0, tokens + 2), g.integer(0, tokens)});
    CAPTURE(tokens);
    CAPTURE(k);
    check_all_promises(draw % 2 == 0 ? host_context{} : pool.context(), in, k);
  }
}

TEST_CASE("top_k: rows long enough for wide digits") {
  generator g(2);
  for (int draw = 0; draw < kvpop_test::draws(60); ++draw) {
    const rows in = random_rows(g, 1, g.integer(1024, 6000));
    check_all_promises({}, in, g.integer(0, in.tokens));
  }
}

TEST_CASE("top_k: tokens at the same position: the smaller index is better, and no more than k are written") {
  const rows in{1, 6, {1, 1, 1, 1, 0, 2}, {9, 4, 9, 9, 1, 2}};
  CHECK(top_k({}, in, 3, top_k_order::rank).index == std::vector<index_t>{5, 0, 2});
  CHECK(top_k({}, in, 5, top_k_order::rank).index == std::vector<index_t>{5, 0, 2, 3, 1});
}

TEST_CASE("top_k: what is wrong is named, and nothing is written") {
  std::vector<double> priority(12, 0.0);
  std::vector<index_t> position(12, 0);
  std::vector<index_t> index(6, -7);
  std::vector<std::byte> scratch(kvpop::top_k_workspace({}, 3, 4, 2));
  const row_view<const double> p(priority.data(), {3, 4});
  const row_view<index_t> out(index.data(), {3, 2});
  const auto call = [&](const row_view<const index_t>& at, const row_view<index_t>& to,
                        const kvpop::workspace& memory) {
    return message_of([&] { kvpop::top_k({}, p, at, to, top_k_order::rank, memory); });
  };
  const kvpop::workspace enough{scratch.data(), scratch.size()};
  CHECK(call({}, {index.data(), {2, 3}}, enough) == "kvpop: top_k: index.extent(head) is 2; priority has 3");
  CHECK(call({position.data(), {3, 3}}, out, enough) == "kvpop: top_k: position.extent(token) is 3; priority has 4");
  CHECK(call({position.data(), {2, 4}}, out, enough) == "kvpop: top_k: position.extent(head) is 2; priority has 3");
  CHECK(call({position.data(), {3, 4}, {4, 2}}, out, enough) ==
        "kvpop: top_k: position.stride(token) is 2; it must be 1");
  CHECK(call({}, {index.data(), {3, 2}, {2, -1}}, enough) == "kvpop: top_k: index.stride(token) is -1; it must be 1");
  CHECK(call({}, {nullptr, {3, 2}}, enough) == "kvpop: top_k: index has no data");
  const auto from = [&](const row_view<const double>& x) {
    return message_of([&] { kvpop::top_k({}, x, {}, out, top_k_order::rank, enough); });
  };
  CHECK(from({priority.data(), {3, 4}, {1, 3}}) == "kvpop: top_k: priority.stride(token) is 3; it must be 1");
  CHECK(from({nullptr, {3, 4}}) == "kvpop: top_k: priority has no data");
  CHECK(call({}, out, {nullptr, 1 << 20}) == "kvpop: top_k: workspace.data is null; workspace.bytes is 1048576");
  CHECK(message_of([&] {
          kvpop::top_k({}, {priority.data(), {0, index_t{1} << 32}}, {}, {index.data(), {0, 2}}, top_k_order::rank,
                       enough);
        }) == "kvpop: top_k: priority.extent(token) is 4294967296; it must be in 0 .. 2^32 - 1");
  CHECK(call({}, out, {scratch.data(), 100}).starts_with("kvpop: top_k: workspace.bytes is 100; at least "));
  CHECK(index == std::vector<index_t>(6, -7));
  CHECK(call({}, out, enough) == "no error");
}
