#include "kvpop/select/bounded_heap.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "support/select_oracle.hpp"  // place_of, priorities

using kvpop::bounded_heap;
using kvpop::index_t;
using kvpop::rank;
using kvpop::rank_of;
using kvpop_test::generator;
using kvpop_test::place;
using kvpop_test::place_of;

namespace {

struct slotted : rank {
  int slot;
};

}  // namespace

TEST_CASE("bounded_heap: after any insertions and lost places it holds and drops what a sorted set does") {
  generator g(1);
  for (int draw = 0; draw < kvpop_test::draws(2000); ++draw) {
    const index_t places = g.integer(0, 40);
    const index_t insertions = g.integer(0, 120);
    const std::vector<double> priority = kvpop_test::priorities(g, insertions);
    std::vector<slotted> storage(static_cast<std::size_t>(std::min(places, insertions)));
    bounded_heap<slotted> heap(storage.data(), places);
    std::set<place> held;
    index_t room = places;
    for (index_t i = 0; i < insertions; ++i) {
      slotted loser{{0, -1}, -1};
      bool lost = false;
      const double& own = priority[static_cast<std::size_t>(i)];
      if (room > 0 && g.chance(0.05)) {
        --room;
        lost = heap.remove_place(loser);
      } else {
        lost = heap.insert({rank_of(own, i), static_cast<int>(2 * i)}, loser);
        held.insert(place_of(own, i));
      }
      const bool too_many = static_cast<index_t>(held.size()) > room;
      REQUIRE(lost == too_many);
      if (too_many) {
        REQUIRE(loser.position == std::get<4>(*held.begin()));
        REQUIRE(loser.slot == 2 * loser.position);
        held.erase(held.begin());
      }
      REQUIRE(heap.places() == room);
      REQUIRE(heap.size() == static_cast<index_t>(held.size()));
    }
    std::set<index_t> positions;
    for (const place& p : held) {
      positions.insert(std::get<4>(p));
    }
    for (index_t i = 0; i < heap.size(); ++i) {
      CHECK(positions.count(heap.entries()[i].position) == 1);
    }
  }
}

TEST_CASE("bounded_heap: without a place every newcomer loses") {
  bounded_heap<> heap(nullptr, 0);
  rank loser{};
  CHECK(heap.insert({7, 3}, loser));
  CHECK(loser == rank{7, 3});
  CHECK(heap.size() == 0);
}
