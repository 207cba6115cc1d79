#include "kvpop/core/view_checks.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"

namespace {

using kvpop_test::message_of;
using rows = kvpop::view<const float, kvpop::host_memory, kvpop::axis::slot, kvpop::axis::dim>;

std::string refused(const rows& x) {
  return message_of([&] { kvpop::expects_rows("verb: x", x); });
}

}  // namespace

TEST_CASE("extents: the first that differs is named with its axis") {
  const float data[6] = {};
  const rows x(data, {2, 3});
  const auto check = [&](kvpop::index_t slots, kvpop::index_t dim) {
    return message_of([&] { kvpop::expects_extents("verb: x", x, {slots, dim}); });
  };
  CHECK(check(2, 3) == "no error");
  CHECK(check(4, 5) == "kvpop: verb: x.extent(slot) is 2; expected 4");
  CHECK(check(2, 5) == "kvpop: verb: x.extent(dim) is 3; expected 5");
}

TEST_CASE("rows: contiguous, with data, unless there is nothing to read") {
  const float data[6] = {};
  CHECK(refused({data, {2, 3}}) == "no error");
  CHECK(refused({data, {2, 3}, {-3, 1}}) == "no error");
  CHECK(refused({data, {2, 3}, {3, 2}}) == "kvpop: verb: x.stride(dim) is 2; it must be 1");
  CHECK(refused({data, {2, 1}, {3, 2}}) == "no error");  // one element has no neighbour
  CHECK(refused({nullptr, {2, 3}}) == "kvpop: verb: x has no data");
  CHECK(refused({nullptr, {0, 3}}) == "no error");
  CHECK(refused({nullptr, {3, 0}}) == "no error");
}

TEST_CASE("data: strides do not matter") {
  const float data[6] = {};
  CHECK(message_of([&] { kvpop::expects_data("verb: x", rows(data, {2, 3}, {1, 2})); }) == "no error");
  CHECK(message_of([&] {
          kvpop::expects_data("verb: x", rows(nullptr, {2, 3}, {1, 2}));
        }) == "kvpop: verb: x has no data");
}
