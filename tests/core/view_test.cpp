#include "kvpop/core/view.hpp"

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include "support/generators.hpp"

namespace {

namespace axis = kvpop::axis;
using kvpop::chunk_view;
using kvpop::device_memory;
using kvpop::host_memory;
using kvpop::index_t;
using kvpop::step_view;

static_assert(std::is_trivially_copyable_v<step_view<float>> && std::is_trivially_copyable_v<chunk_view<const float>>);
static_assert(std::is_trivially_copyable_v<step_view<float, device_memory>>);

// To const, never from const, never to another space, other axes or another element.
static_assert(std::is_convertible_v<step_view<float>, step_view<const float>>);
static_assert(std::is_convertible_v<step_view<float, device_memory>, step_view<const float, device_memory>>);
static_assert(!std::is_constructible_v<step_view<float>, step_view<const float>>);
static_assert(!std::is_constructible_v<step_view<float>, step_view<float, device_memory>>);
static_assert(!std::is_constructible_v<step_view<const float>, step_view<float, device_memory>>);
static_assert(!std::is_constructible_v<step_view<float, device_memory>, step_view<float>>);
static_assert(!std::is_constructible_v<step_view<float>, chunk_view<float>>);
static_assert(!std::is_constructible_v<step_view<const float>, step_view<int>>);
using transposed = kvpop::view<float, host_memory, axis::head, axis::sequence, axis::dim>;
static_assert(!std::is_constructible_v<step_view<float>, transposed>);
static_assert(step_view<float>::rank == 3 && chunk_view<float>::rank == 4);
static_assert(std::is_same_v<step_view<const float>::value_type, float>);
static_assert(std::is_same_v<step_view<const float>::element_type, const float>);
static_assert(std::is_same_v<step_view<float, device_memory>::memory, device_memory>);

// The number of indices is that of the axes, or one less for a row.
template <class V, class... I>
concept indexable = requires(const V& v, I... i) {
  v(i...);
};
template <class V, class... I>
concept has_row = requires(const V& v, I... i) {
  v.row(i...);
};
static_assert(indexable<step_view<float>, int, index_t, int>);
static_assert(!indexable<step_view<float>, int, int> && !indexable<step_view<float>, int, int, int, int>);
static_assert(has_row<step_view<float>, int, int> && !has_row<step_view<float>, int, int, int>);

}  // namespace

TEST_CASE("an empty view has no data and no extent") {
  constexpr chunk_view<float> none;
  static_assert(none.data() == nullptr);
  static_assert(none.extent<axis::token>() == 0 && none.stride<axis::dim>() == 0);
  CHECK(none.extents() == std::array<index_t, 4>{0, 0, 0, 0});
}

TEST_CASE("dense strides are row-major; axes are found by name") {
  float data[2 * 3 * 5 * 7] = {};
  const chunk_view<float> x(data, {2, 3, 5, 7});
  CHECK(x.extent<axis::sequence>() == 2);
  CHECK(x.extent<axis::token>() == 3);
  CHECK(x.extent<axis::head>() == 5);
  CHECK(x.extent<axis::dim>() == 7);
  CHECK(x.stride<axis::sequence>() == 105);
  CHECK(x.stride<axis::token>() == 35);
  CHECK(x.stride<axis::head>() == 7);
  CHECK(x.stride<axis::dim>() == 1);
  CHECK(&x(1, 2, 4, 6) == data + 209);
  CHECK(x.row(1, 0, 3) == data + 105 + 21);
  x(1, 2, 4, 6) = 3.0F;  // a view does not own: constness is the element's
  CHECK(data[209] == 3.0F);
}

TEST_CASE("random strides: an element is where its strides say, through conversions too") {
  for (int i = 0; i < kvpop_test::draws(1'000); ++i) {
    kvpop_test::generator random(70'000'000 + static_cast<std::uint64_t>(i));
    CAPTURE(i);
    std::array<index_t, 4> n{};
    std::array<index_t, 4> s{};
    index_t last = 0;
    for (std::size_t a = 0; a < 4; ++a) {
      n[a] = random.integer(1, 5);
      s[a] = a == 3 ? 1 : random.integer(0, 40);  // 0: the same row again and again
      last += (n[a] - 1) * s[a];
    }
    std::vector<int> data(static_cast<std::size_t>(last + 1));
    for (std::size_t j = 0; j < data.size(); ++j) {
      data[j] = static_cast<int>(j);
    }
    const chunk_view<int> x(data.data(), n, s);
    const chunk_view<const int> c = x;
    const index_t at[4] = {random.integer(0, n[0] - 1), random.integer(0, n[1] - 1), random.integer(0, n[2] - 1),
                           random.integer(0, n[3] - 1)};
    const index_t offset = at[0] * s[0] + at[1] * s[1] + at[2] * s[2] + at[3];
    REQUIRE(x(at[0], at[1], at[2], at[3]) == offset);
    REQUIRE(c(at[0], at[1], at[2], at[3]) == offset);
    REQUIRE(*c.row(at[0], at[1], at[2]) == offset - at[3]);
    REQUIRE(c.extents() == n);
    REQUIRE(c.strides() == s);
  }
}

TEST_CASE("a step is a chunk of one token") {
  const float data[100] = {};
  const step_view<const float> step(data, {2, 3, 5}, {40, 7, 1});
  const chunk_view<const float> chunk = kvpop::as_chunk(step);
  CHECK(chunk.extents() == std::array<index_t, 4>{2, 1, 3, 5});
  for (index_t b = 0; b < 2; ++b) {
    for (index_t h = 0; h < 3; ++h) {
      CHECK(chunk.row(b, 0, h) == step.row(b, h));
    }
  }
}
