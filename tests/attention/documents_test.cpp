#include "kvpop/attention/documents.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "support/generators.hpp"  // generator, draws
#include "support/message_of.hpp"  // message_of

using kvpop::index_t;

namespace {

TEST_CASE("a document ends where the number changes, for every token of random rows") {
  kvpop_test::generator random(730);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t sequences = random.integer(1, 3), tokens = random.integer(0, 23);
    std::vector<std::int32_t> ids;
    for (index_t i = 0; i < sequences * tokens; ++i) ids.push_back(static_cast<std::int32_t>(random.integer(-1, 1)));
    const kvpop::segments_view segments(ids.data(), {sequences, tokens});
    const bool absent = random.chance(0.2);
    for (index_t b = 0; b < sequences; ++b) {
      std::vector<index_t> ends(static_cast<std::size_t>(tokens), -7);
      kvpop::document_ends(absent ? kvpop::segments_view{} : segments, b, tokens, ends.data());
      for (index_t t = 0; t < tokens; ++t) {
        index_t end = t;
        while (end < tokens && (absent || segments(b, end) == segments(b, t))) ++end;
        REQUIRE(ends[static_cast<std::size_t>(t)] == end);
      }
    }
  }
}

TEST_CASE("segments of another shape are refused by name") {
  const std::int32_t ids[6] = {};
  CHECK_NOTHROW(kvpop::expects_segments("verb", {}, 2, 3));
  CHECK_NOTHROW(kvpop::expects_segments("verb", {ids, {2, 3}}, 2, 3));
  CHECK(kvpop_test::message_of([&] {
          kvpop::expects_segments("verb", {ids, {1, 3}}, 2, 3);
        }) == "kvpop: verb: segments.extent(sequence) is 1; k has 2");
  CHECK(kvpop_test::message_of([&] {
          kvpop::expects_segments("verb", {ids, {2, 2}}, 2, 3);
        }) == "kvpop: verb: segments.extent(token) is 2; k has 3");
}

}  // namespace
