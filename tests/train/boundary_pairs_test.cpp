#include "kvpop/train/boundary_pairs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/generators.hpp"  // generator, draws

using kvpop::boundary_pair;
using kvpop::index_t;

namespace {

// Whether token a is kept rather than token b: NaN below everything, ties to the later. Shares nothing with the library.
bool better(const std::vector<double>& p, index_t a, index_t b) {
  const double x = p[static_cast<std::size_t>(a)], y = p[static_cast<std::size_t>(b)];
  if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
  if (!std::isnan(x) && x != y) return x > y;
  return a > b;
}

// The definition, quadratic.
std::vector<boundary_pair> oracle(const std::vector<double>& priority, const kvpop::budget& limits) {
  std::vector<boundary_pair> pairs;
  for (index_t q = 0; q < static_cast<index_t>(priority.size()); ++q) {
    const index_t entering = q - limits.window;
    if (entering < limits.sinks || limits.topk == 0 || entering - limits.sinks < limits.topk) continue;
    std::vector<index_t> others;
    for (index_t t = limits.sinks; t < entering; ++t) others.push_back(t);
    std::sort(others.begin(), others.end(), [&](index_t a, index_t b) { return better(priority, a, b); });
    const index_t boundary = others[static_cast<std::size_t>(limits.topk - 1)];
    pairs.push_back({q, entering, boundary, better(priority, entering, boundary)});
  }
  return pairs;
}

TEST_CASE("the streaming pairs are those of the definition, with ties, NaN, infinities and any budget") {
  kvpop_test::generator random(840);
  for (int draw = 0; draw < kvpop_test::draws(1500); ++draw) {
    const index_t tokens = random.integer(0, 60);
    const kvpop::budget limits{random.integer(0, 5), random.integer(1, 9), random.pick<index_t>({0, 1, 2, 5, 11, 100})};
    std::vector<double> priority;
    for (index_t t = 0; t < tokens; ++t) priority.push_back(static_cast<double>(random.score()));
    std::vector<kvpop::rank> heap(static_cast<std::size_t>(kvpop::long_range_tokens(tokens, limits)));
    std::vector<boundary_pair> pairs(static_cast<std::size_t>(kvpop::max_boundary_pairs(tokens, limits)));
    const index_t count = kvpop::boundary_pairs(priority.data(), tokens, limits, heap.data(), pairs.data());
    const auto want = oracle(priority, limits);
    REQUIRE(count == static_cast<index_t>(want.size()));
    REQUIRE(count == kvpop::max_boundary_pairs(tokens, limits));
    for (std::size_t i = 0; i < want.size(); ++i) {
      REQUIRE(pairs[i].query == want[i].query);
      REQUIRE(pairs[i].entering == want[i].entering);
      REQUIRE(pairs[i].boundary == want[i].boundary);
      REQUIRE(pairs[i].wins == want[i].wins);
    }
  }
}

}  // namespace
