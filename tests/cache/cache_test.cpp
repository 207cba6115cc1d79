#include "kvpop/cache/cache.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <type_traits>
#include <utility>

#include "kvpop/cache/append.hpp"
#include "kvpop/score/recency.hpp"
#include "support/cache_block.hpp"
#include "support/counting_allocator.hpp"

using namespace kvpop_test;

namespace {

using cache_type = kvpop::budgeted_cache<kvpop::bfloat16, 3, 5, counting_allocator>;

static_assert(!std::is_copy_constructible_v<cache_type> && !std::is_copy_assignable_v<cache_type>);
static_assert(std::is_nothrow_move_constructible_v<cache_type> && std::is_nothrow_move_assignable_v<cache_type>);

constexpr kvpop::cache_shape shape{.sequences = 2, .kv_heads = 3, .memory = 7};
constexpr kvpop::budget limits{.sinks = 1, .window = 2, .topk = 4};

}  // namespace

TEST_CASE("construction allocates once, what `bytes` says, and clears; destruction returns it") {
  allocation_counts counts;
  {
    cache_type cache(shape, limits, counting_allocator(counts));
    CHECK(counts.allocations == 1);
    CHECK(counts.bytes == cache_type::ref_type::bytes(shape, limits));
    CHECK(cache.bytes() == counts.bytes);
    CHECK(counts.alignment == 64);
    const auto ref = cache.ref();
    CHECK(ref.shape() == shape);
    CHECK(ref.budget() == limits);
    CHECK(reinterpret_cast<std::uintptr_t>(ref.arrays().keys) % 64 == 0);
    for (index_t b = 0; b < 2; ++b) {
      CHECK(ref.seen(b) == 0);
      CHECK(ref.pins(b) == 0);
      CHECK(ref.limit(b) == 7);
      for (index_t h = 0; h < 3; ++h) {
        CHECK(ref.held(b, h) == 0);
        for (index_t slot = 0; slot < 7; ++slot) {
          CHECK(ref.head(b, h).positions[slot] == -1);
          CHECK(std::isnan(ref.head(b, h).priorities[slot]));
          CHECK(ref.head(b, h).pinned[slot] == 0);
        }
      }
    }
    CHECK(cache.ref().arrays().keys == ref.arrays().keys);
    CHECK(counts.allocations == 1);
  }
  CHECK(counts.deallocations == 1);
  CHECK(counts.bytes == 0);
}

TEST_CASE("moving hands the memory on: references stay valid, nothing is allocated, nothing leaks") {
  allocation_counts counts;
  {
    cache_type cache(shape, limits, counting_allocator(counts));
    const auto before = cache.ref();
    const std::vector<float> token(2 * 3 * 5);
    kvpop::append(kvpop::host_context(), before, kvpop::recency{},
                  kvpop::step_view<const float>(token.data(), {2, 3, 3}),
                  kvpop::step_view<const float>(token.data(), {2, 3, 5}));
    cache_type moved(std::move(cache));
    CHECK(moved.ref().arrays().keys == before.arrays().keys);
    CHECK(moved.ref().seen(1) == 1);
    CHECK(counts.allocations == 1);
    cache_type other({}, {}, counting_allocator(counts));
    CHECK(counts.allocations == 2);
    other = std::move(moved);
    CHECK(counts.deallocations == 1);
    CHECK(other.ref().arrays().keys == before.arrays().keys);
    CHECK(other.ref().shape() == shape);
    CHECK(other.ref().budget() == limits);
  }
  CHECK(counts.allocations == counts.deallocations);
  CHECK(counts.bytes == 0);
}

TEST_CASE("memory that is not to be had is an error that says how much; an allocator's own exception passes through") {
  allocation_counts counts;
  CHECK(message_of([&] { cache_type(shape, limits, counting_allocator(counts, failure::null)); }) ==
        "kvpop: buffer: " + std::to_string(cache_type::ref_type::bytes(shape, limits)) +
            " bytes could not be allocated");
  CHECK_THROWS_AS(cache_type(shape, limits, counting_allocator(counts, failure::bad_alloc)), std::bad_alloc);
  CHECK(counts.allocations == 0);
  CHECK(counts.deallocations == 0);
}

TEST_CASE("what cannot be is refused before anything is allocated") {
  allocation_counts counts;
  CHECK(message_of([&] { cache_type({.sequences = 0}, limits, counting_allocator(counts)); }) ==
        "kvpop: cache_shape.sequences is 0; it must be at least 1");
  CHECK(message_of([&] { cache_type(shape, {.sinks = 0, .window = 0, .topk = 1}, counting_allocator(counts)); }) ==
        "kvpop: budget.window is 0; it must be at least 1: a token always sees itself");
  CHECK(message_of([&] { cache_type({.sequences = index_t{1} << 62}, limits, counting_allocator(counts)); }) ==
        "kvpop: cache: 4611686018427387904 * 7 does not fit 63 bits");
  CHECK(counts.allocations == 0);
}
