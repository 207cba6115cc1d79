#include "kvpop/cache/cache_ref.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/cache_block.hpp"
#include "support/generators.hpp"

using namespace kvpop_test;

namespace {

using ref = kvpop::budgeted_cache_ref<float, 3, 5>;
using half_ref = kvpop::budgeted_cache_ref<kvpop::bfloat16, 128>;

static_assert(std::is_trivially_copyable_v<ref>);
static_assert(half_ref::key_dim == 128 && half_ref::value_dim == 128, "the value dimension is the key's by default");
static_assert(ref::entry_bytes() == 32 && half_ref::entry_bytes() == 512);

std::string refused(const kvpop::cache_shape& shape, const kvpop::budget& limits = {}) {
  return message_of([&] { ref::validate(shape, limits); });
}

constexpr index_t largest = std::numeric_limits<index_t>::max();

}  // namespace

TEST_CASE("the arrays of a block are aligned, disjoint, inside it and in the order of cache_arrays") {
  for (int i = 0; i < draws(1'000); ++i) {
    generator random(30'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    const kvpop::cache_shape shape{.sequences = random.integer(1, 5),
                                   .kv_heads = random.integer(1, 7),
                                   .memory = random.pick<index_t>({0, 1, 13}),
                                   .prompt = random.pick<index_t>({0, 1, 41})};
    const kvpop::budget limits{
        .sinks = random.integer(0, 5), .window = random.integer(1, 9), .topk = random.integer(0, 9)};
    const index_t slots = std::max(limits.sinks + limits.window + limits.topk, shape.prompt);
    const index_t heads = shape.sequences * shape.kv_heads;
    std::vector<std::byte> memory(ref::bytes(shape, limits) + 64);
    std::byte* begin = memory.data() + random.integer(0, 63);  // an engine's block need not be aligned
    kvpop::carver carver({begin, ref::bytes(shape, limits)}, "test");
    const kvpop::cache_arrays<float> a = ref::carve(carver, shape, limits);
    const std::vector<std::pair<const void*, index_t>> arrays = {{a.keys, heads * slots * 3 * 4},
                                                                 {a.values, heads * slots * 5 * 4},
                                                                 {a.positions, heads * slots * 8},
                                                                 {a.priorities, heads * slots * 8},
                                                                 {a.memories, heads * shape.memory * 4},
                                                                 {a.seen, shape.sequences * 8},
                                                                 {a.limits, shape.sequences * 8},
                                                                 {a.rings, heads * limits.window * 4},
                                                                 {a.held, heads * 4},
                                                                 {a.pins, shape.sequences * 4},
                                                                 {a.pinned, heads * slots}};
    const std::byte* end = begin;
    for (const auto& [at, bytes] : arrays) {
      if (bytes == 0) {
        continue;
      }
      const auto* first = static_cast<const std::byte*>(at);
      REQUIRE(first >= end);
      REQUIRE(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
      end = first + bytes;
    }
    REQUIRE(end <= begin + ref::bytes(shape, limits));
    // Room is what the arrays take, each rounded up to 64 bytes, plus room to align the block; not a byte more.
    index_t taken = 0;
    for (const auto& [at, bytes] : arrays) {
      taken = (taken + 63) / 64 * 64 + bytes;
    }
    REQUIRE(static_cast<index_t>(ref::bytes(shape, limits)) == taken + 63);
  }
}

TEST_CASE("seen, held, capacity, slots and limit are different things") {
  const cache_block<float, 3, 5> cache({.sequences = 2, .kv_heads = 3, .memory = 4, .prompt = 29},
                                       {.sinks = 1, .window = 2, .topk = 4});
  const ref r = cache.ref();
  CHECK(r.sequences() == 2);
  CHECK(r.kv_heads() == 3);
  CHECK(r.capacity() == 7);
  CHECK(r.slots() == 29);
  CHECK(r.limit(0) == 29);
  CHECK(r.seen(1) == 0);
  CHECK(r.held(1, 2) == 0);
  CHECK(r.pins(1) == 0);
  CHECK(r.shape() == kvpop::cache_shape{.sequences = 2, .kv_heads = 3, .memory = 4, .prompt = 29});
  CHECK(r.budget() == kvpop::budget{.sinks = 1, .window = 2, .topk = 4});

  const kvpop::head_state<float> head = r.head(1, 2);
  const index_t row = 1 * 3 + 2;
  CHECK(head.keys == r.arrays().keys + row * 29 * 3);
  CHECK(head.values == r.arrays().values + row * 29 * 5);
  CHECK(head.positions == r.arrays().positions + row * 29);
  CHECK(head.priorities == r.arrays().priorities + row * 29);
  CHECK(head.memory == r.arrays().memories + row * 4);
  CHECK(head.ring == r.arrays().rings + row * 2);
  CHECK(head.held == r.arrays().held + row);
  CHECK(head.pinned == r.arrays().pinned + row * 29);
  CHECK(head.limit == 29);
  CHECK(head.pins == 0);
}

TEST_CASE("a prompt that fits the budget asks for no slot more") {
  const cache_block<float, 3, 5> cache({.prompt = 5}, {.sinks = 1, .window = 2, .topk = 4});
  CHECK(cache.ref().slots() == 7);
  CHECK(cache.ref().limit(0) == 7);
}

TEST_CASE("a shape that cannot be is refused by name, value and limit") {
  CHECK(refused({.sequences = 0}) == "kvpop: cache_shape.sequences is 0; it must be at least 1");
  CHECK(refused({.sequences = -3}) == "kvpop: cache_shape.sequences is -3; it must be at least 1");
  CHECK(refused({.kv_heads = 0}) == "kvpop: cache_shape.kv_heads is 0; it must be at least 1");
  CHECK(refused({.memory = -1}) == "kvpop: cache_shape.memory is -1; it must be at least 0");
  CHECK(refused({.prompt = -1}) == "kvpop: cache_shape.prompt is -1; it must be at least 0 and less than 2^31");
  CHECK(refused({.prompt = index_t{1} << 31}) ==
        "kvpop: cache_shape.prompt is 2147483648; it must be at least 0 and less than 2^31");
  CHECK(refused({}, {.sinks = 0, .window = 0, .topk = 0}) ==
        "kvpop: budget.window is 0; it must be at least 1: a token always sees itself");
}

TEST_CASE("sizes that do not fit 63 bits are refused, whichever product overflows") {
  CHECK(refused({.sequences = largest, .kv_heads = 2}) == "kvpop: cache: 9223372036854775807 * 2 does not fit 63 bits");
  CHECK(refused({.sequences = index_t{1} << 40, .kv_heads = index_t{1} << 20}) ==
        "kvpop: cache: 1152921504606846976 * 260 does not fit 63 bits");
  CHECK(refused({.sequences = 1, .kv_heads = index_t{1} << 53}) ==
        "kvpop: workspace: 7025615418697973760 * 4 does not fit 63 bits");
  CHECK(refused({.sequences = 1, .kv_heads = index_t{1} << 54}) ==
        "kvpop: cache: 4683743612465315840 * 3 does not fit 63 bits");
  CHECK(refused({.memory = largest}) == "kvpop: workspace: 9223372036854775807 * 4 does not fit 63 bits");
  CHECK(refused({.sequences = 1, .kv_heads = 3, .memory = largest / 2}) ==
        "kvpop: cache: 3 * 4611686018427387903 does not fit 63 bits");
  // Each array fits, their sum does not.
  CHECK(refused({.memory = largest / 4 - 100}).find("does not fit 63 bits") != std::string::npos);
}

TEST_CASE("a cache over the engine's own arrays") {
  const kvpop::budget limits{.sinks = 1, .window = 1, .topk = 1};
  std::vector<float> keys(2 * 3 * 3);
  std::vector<float> values(2 * 3 * 5);
  std::vector<index_t> positions(2 * 3);
  std::vector<double> priorities(2 * 3);
  std::vector<index_t> seen(1);
  std::vector<index_t> limit(1);
  std::vector<std::int32_t> rings(2);
  std::vector<std::int32_t> held(2);
  std::vector<std::int32_t> pins(1);
  std::vector<std::uint8_t> pinned(2 * 3);
  const kvpop::cache_arrays<float> arrays{.keys = keys.data(),
                                          .values = values.data(),
                                          .positions = positions.data(),
                                          .priorities = priorities.data(),
                                          .memories = nullptr,
                                          .seen = seen.data(),
                                          .limits = limit.data(),
                                          .rings = rings.data(),
                                          .held = held.data(),
                                          .pins = pins.data(),
                                          .pinned = pinned.data()};
  const ref cache(arrays, {.kv_heads = 2}, limits);
  kvpop::clear(cache);
  CHECK(positions == std::vector<index_t>(6, -1));
  CHECK(cache.limit(0) == 3);
  CHECK(message_of([&] { static_cast<void>(ref({}, {.kv_heads = 0}, limits)); }) ==
        "kvpop: cache_shape.kv_heads is 0; it must be at least 1");
  const auto without = [&](auto kvpop::cache_arrays<float>::*array) {
    kvpop::cache_arrays<float> spoilt = arrays;
    spoilt.*array = nullptr;
    return message_of([&] { static_cast<void>(ref(spoilt, {.kv_heads = 2}, limits)); });
  };
  using all = kvpop::cache_arrays<float>;
  CHECK(without(&all::keys) == "kvpop: cache_arrays.keys is null");
  CHECK(without(&all::values) == "kvpop: cache_arrays.values is null");
  CHECK(without(&all::positions) == "kvpop: cache_arrays.positions is null");
  CHECK(without(&all::priorities) == "kvpop: cache_arrays.priorities is null");
  CHECK(without(&all::seen) == "kvpop: cache_arrays.seen is null");
  CHECK(without(&all::limits) == "kvpop: cache_arrays.limits is null");
  CHECK(without(&all::rings) == "kvpop: cache_arrays.rings is null");
  CHECK(without(&all::held) == "kvpop: cache_arrays.held is null");
  CHECK(without(&all::pins) == "kvpop: cache_arrays.pins is null");
  CHECK(without(&all::pinned) == "kvpop: cache_arrays.pinned is null");
  CHECK(without(&all::memories) == "no error");  // memory is 0
  CHECK(message_of([&] { static_cast<void>(ref(arrays, {.kv_heads = 2, .memory = 3}, limits)); }) ==
        "kvpop: cache_arrays.memories is null");
}
