#include "kvpop/attention/prefill_tile.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "support/generators.hpp"  // generator, draws

// The parts of a tile that can be checked by themselves: what is covered, what is finite, how rows are widened.

using kvpop::index_t;
using kvpop::prefill_kernel::coverage;
using kvpop_test::generator;

TEST_CASE("coverage is none, some or all of the pairs, counted one by one") {
  int seen[3] = {};
  for (int i = 0; i < kvpop_test::draws(20'000); ++i) {
    generator random(4'400'000 + static_cast<std::uint64_t>(i));
    kvpop::prefill_kernel::lifetimes keys;
    const index_t count = random.integer(1, kvpop::prefill_key_tile);
    const int style = static_cast<int>(random.integer(0, 3));
    for (index_t n = 0; n < count; ++n) {
      const auto born = static_cast<std::int32_t>(style == 0 ? 0 : random.integer(0, 64));
      keys.born[n] = born;
      keys.dies[n] = static_cast<std::int32_t>(style == 0 ? 64 : style == 1 ? born : random.integer(born, 64));
    }
    const index_t first = random.integer(0, 63), last = random.integer(first, 63);
    index_t pairs = 0;
    for (index_t n = 0; n < count; ++n)
      for (index_t t = first; t <= last; ++t) pairs += keys.born[n] <= t && t < keys.dies[n] ? 1 : 0;
    const coverage expected = pairs == 0                            ? coverage::none
                              : pairs == count * (last - first + 1) ? coverage::all
                                                                    : coverage::some;
    REQUIRE(kvpop::prefill_kernel::covered(keys, count, first, last) == expected);
    ++seen[static_cast<int>(expected)];
  }
  for (const int times : seen) CHECK(times > 100);
}

TEST_CASE_TEMPLATE("one element that is not finite is found wherever it stands", T, float, kvpop::float16,
                   kvpop::bfloat16) {
  constexpr index_t count = 5, dim = 19;
  const auto of = [](float x) { return kvpop::scalar_traits<T>::from_float(x); };
  std::vector<T> rows(count * dim, of(-60000.0F));
  CHECK(kvpop::prefill_kernel::all_finite(rows.data(), count, dim));
  for (T& x : rows) {
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      x = of(bad);
      CHECK_FALSE(kvpop::prefill_kernel::all_finite(rows.data(), count, dim));
    }
    x = of(1.0F);
  }
  CHECK(kvpop::prefill_kernel::all_finite(rows.data(), 0, dim));
}

TEST_CASE_TEMPLATE("rows are widened exactly, apart by the step, with zeros between", T, float, kvpop::float16,
                   kvpop::bfloat16) {
  constexpr index_t count = 3, dim = 19, step = kvpop::padded_dim(dim);
  std::vector<T> from;
  for (index_t i = 0; i < count * dim; ++i)
    from.push_back(kvpop::scalar_traits<T>::from_float(static_cast<float>(i - 20)));
  std::vector<float> to(count * step + 4, 77.0F);
  kvpop::prefill_kernel::widen_rows<dim, step>(from.data(), dim, count, to.data());
  for (index_t i = 0; i < count * step; ++i) {
    const index_t row = i / step, d = i % step;
    CHECK(to[static_cast<std::size_t>(i)] == (d < dim ? static_cast<float>(row * dim + d - 20) : 0.0F));
  }
  for (std::size_t i = count * step; i < to.size(); ++i) CHECK(to[i] == 77.0F);
}
