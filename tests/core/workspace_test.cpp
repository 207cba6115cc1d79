#include "kvpop/core/workspace.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "support/generators.hpp"
#include "support/message_of.hpp"

namespace {

using kvpop::carver;
using kvpop::index_t;
using kvpop::workspace;
using kvpop_test::message_of;

static_assert(std::is_trivially_copyable_v<workspace>);

struct taken {
  std::byte* begin;
  index_t bytes;
};

// Takes a random sequence of arrays; the same for the same stream.
std::vector<taken> take_some(carver& memory, std::uint64_t stream) {
  kvpop_test::generator random(stream);
  std::vector<taken> all;
  const index_t arrays = random.integer(0, 9);
  for (index_t i = 0; i < arrays; ++i) {
    const index_t n = random.pick<index_t>({0, 1, 3, 16, 17, 64, 129});
    switch (random.integer(0, 2)) {
      case 0:
        all.push_back({reinterpret_cast<std::byte*>(memory.take<char>(n)), n});
        break;
      case 1:
        all.push_back({reinterpret_cast<std::byte*>(memory.take<float>(n)), n * 4});
        break;
      default:
        all.push_back({reinterpret_cast<std::byte*>(memory.take<double>(n)), n * 8});
        break;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("counting and carving agree, wherever the workspace begins: aligned, disjoint, inside") {
  for (int i = 0; i < kvpop_test::draws(2'000); ++i) {
    CAPTURE(i);
    const auto stream = 71'000'000 + static_cast<std::uint64_t>(i);
    carver count;
    for (const taken& t : take_some(count, stream)) {
      REQUIRE(t.begin == nullptr);
    }
    const std::size_t bytes = count.bytes();
    std::vector<std::byte> memory(bytes + 64);
    for (std::size_t shift : {0U, 1U, 17U, 63U}) {
      std::byte* begin = memory.data() + shift;
      carver carve({begin, bytes}, "verb");
      const std::byte* end = begin;
      for (const taken& t : take_some(carve, stream)) {
        if (t.bytes == 0) {
          REQUIRE(t.begin == nullptr);
          continue;
        }
        REQUIRE(reinterpret_cast<std::uintptr_t>(t.begin) % carver::alignment == 0);
        REQUIRE(t.begin >= end);
        end = t.begin + t.bytes;
      }
      REQUIRE(end <= begin + bytes);
      REQUIRE(carve.bytes() <= bytes);
    }
  }
}

TEST_CASE("nothing taken takes nothing") {
  carver count;
  CHECK(count.bytes() == 0);
  CHECK(count.take<double>(0) == nullptr);
  CHECK(count.bytes() == 0);
  carver carve({}, "verb");
  CHECK(carve.take<float>(0) == nullptr);
  CHECK(carve.bytes() == 0);
}

TEST_CASE("a workspace that is too small is an error that names the verb and both sizes") {
  alignas(64) std::byte memory[256];
  carver carve({memory, 100}, "prefill");
  CHECK(carve.take<float>(16) != nullptr);
  CHECK(message_of([&] { carve.take<float>(10); }) ==
        "kvpop: prefill: workspace.bytes is 100; at least 104 are needed");
  carver exact({memory, 104}, "prefill");
  exact.take<float>(16);
  CHECK(reinterpret_cast<std::byte*>(exact.take<float>(10)) == memory + 64);
  carver shifted({memory + 1, 127}, "prefill");  // 63 bytes go to alignment
  CHECK(message_of([&] { shifted.take<double>(9); }) ==
        "kvpop: prefill: workspace.bytes is 127; at least 135 are needed");
  carver none({}, "prefill");
  CHECK(message_of([&] { none.take<char>(1); }) == "kvpop: prefill: workspace.bytes is 0; at least 1 are needed");
  carver nowhere({nullptr, 100}, "prefill");
  CHECK(nowhere.take<char>(0) == nullptr);
  CHECK(message_of([&] { nowhere.take<char>(1); }) == "kvpop: prefill: workspace.data is null; workspace.bytes is 100");
}

TEST_CASE("sizes that do not fit 63 bits are errors in both modes") {
  constexpr index_t largest = std::numeric_limits<index_t>::max();
  carver count;
  CHECK(message_of([&] { count.take<double>(largest / 2); }) ==
        "kvpop: workspace: 4611686018427387903 * 8 does not fit 63 bits");
  count.take<char>(largest - 70);
  CHECK(message_of([&] { count.take<char>(100); }).find("does not fit 63 bits") != std::string::npos);
}
