#include "kvpop/select/fenwick_tree.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "support/generators.hpp"  // generator

using kvpop::fenwick_tree;
using kvpop::index_t;

TEST_CASE("fenwick_tree: find gives the sorted members in turn, after every insertion, at all sizes") {
  kvpop_test::generator g(1);
  for (index_t n = 0; n <= 70; ++n) {
    std::vector<index_t> places;
    for (index_t p = 1; p <= n; ++p) {
      places.push_back(p);
    }
    for (std::size_t i = places.size(); i > 1; --i) {
      std::swap(places[i - 1], places[static_cast<std::size_t>(g.integer(0, static_cast<index_t>(i) - 1))]);
    }
    std::vector<index_t> storage(static_cast<std::size_t>(n + 1), -5);
    fenwick_tree tree(storage.data(), n);
    std::vector<index_t> members;
    for (const index_t p : places) {
      tree.add(p);
      members.insert(std::lower_bound(members.begin(), members.end(), p), p);
      REQUIRE(tree.total() == static_cast<index_t>(members.size()));
      for (index_t count = 1; count <= tree.total(); ++count) {
        REQUIRE(tree.find(count) == members[static_cast<std::size_t>(count - 1)]);
      }
    }
  }
}
