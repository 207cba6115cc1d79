#include "kvpop/attention/block_product.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "support/generators.hpp"  // generator, draws

using kvpop::index_t;
using kvpop_test::generator;

namespace {

namespace kernel = kvpop::prefill_kernel;

std::vector<float> random_floats(generator& random, index_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) value = random.normal();
  return x;
}

// c = c * factor + a b against the sums in double, with the steps that its two users choose: rows of a apart by `row_step`.
template <int Rows, int Vectors>
void check_product(generator& random, bool transposed, bool with_factor) {
  const index_t depth = random.integer(0, 37), columns = Vectors * kvpop::simd::lanes;
  const index_t row_step = transposed ? 1 : depth + random.integer(0, 3), depth_step = transposed ? Rows : 1;
  const index_t b_step = columns + random.integer(0, 5), c_step = columns + random.integer(0, 5);
  const auto a = random_floats(random, Rows * row_step + depth * depth_step + 1);
  const auto b = random_floats(random, depth * b_step + columns);
  const auto factor = random_floats(random, Rows);
  const auto before = random_floats(random, Rows * c_step);
  auto c = before;
  kernel::multiply<Rows, Vectors>(a.data(), row_step, depth_step, b.data(), b_step, depth, c.data(), c_step,
                                  with_factor ? factor.data() : nullptr);
  for (index_t r = 0; r < Rows; ++r) {
    for (index_t v = 0; v < c_step; ++v) {
      const auto at = static_cast<std::size_t>(r * c_step + v);
      if (v >= columns) {
        REQUIRE(c[at] == before[at]);  // what lies between the rows is left alone
        continue;
      }
      double want = with_factor
                        ? static_cast<double>(before[at]) * static_cast<double>(factor[static_cast<std::size_t>(r)])
                        : 0.0;
      double size = std::abs(want);
      for (index_t i = 0; i < depth; ++i) {
        const double term = static_cast<double>(a[static_cast<std::size_t>(r * row_step + i * depth_step)]) *
                            static_cast<double>(b[static_cast<std::size_t>(i * b_step + v)]);
        want += term;
        size += std::abs(term);
      }
      REQUIRE(std::abs(static_cast<double>(c[at]) - want) <= 1e-7 * static_cast<double>(depth + 2) * size);
    }
  }
}

TEST_CASE("a block is the matrix product, for any depth and any steps") {
  generator random(720);
  for (int i = 0; i < kvpop_test::draws(1000); ++i) {
    check_product<kernel::block_rows, 2>(random, random.chance(0.5), random.chance(0.5));
    check_product<kernel::block_rows, 1>(random, random.chance(0.5), random.chance(0.5));
  }
}

}  // namespace
