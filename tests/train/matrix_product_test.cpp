#include "kvpop/train/matrix_product.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "support/train_cases.hpp"  // normals

using kvpop::index_t;
using kvpop::transpose;

namespace {

static_assert(kvpop::matrix_product<kvpop::plain_product, float>);
static_assert(kvpop::matrix_product<kvpop::plain_product, double>);

TEST_CASE_TEMPLATE("the plain product is the definition, for all transpositions, sizes and leading dimensions", T,
                   float, double) {
  kvpop_test::generator random(800);
  for (int draw = 0; draw < kvpop_test::draws(500); ++draw) {  // 1,000 over the two types
    const index_t m = random.integer(0, 9), n = random.integer(0, 19), k = random.integer(0, 11);
    const bool ta = random.chance(0.5), tb = random.chance(0.5), add = random.chance(0.5);
    const index_t lda = (ta ? m : k) + random.integer(0, 3), ldb = (tb ? k : n) + random.integer(0, 3);
    const index_t ldc = n + random.integer(0, 3);
    const auto a = kvpop_test::normals<T>(random, (ta ? k : m) * lda + 1, 1.0);
    const auto b = kvpop_test::normals<T>(random, (tb ? n : k) * ldb + 1, 1.0);
    const auto before = kvpop_test::normals<T>(random, m * ldc + 1, 1.0);
    auto c = before;
    kvpop::plain_product{}(ta ? transpose::yes : transpose::no, tb ? transpose::yes : transpose::no, m, n, k, a.data(),
                           lda, b.data(), ldb, c.data(), ldc, add);
    for (index_t i = 0; i < m; ++i) {
      for (index_t j = 0; j < ldc; ++j) {
        const auto at = static_cast<std::size_t>(i * ldc + j);
        if (j >= n) {
          REQUIRE(c[at] == before[at]);
          continue;
        }
        double want = add ? static_cast<double>(before[at]) : 0.0;
        for (index_t l = 0; l < k; ++l)
          want += static_cast<double>(a[static_cast<std::size_t>(ta ? l * lda + i : i * lda + l)]) *
                  static_cast<double>(b[static_cast<std::size_t>(tb ? j * ldb + l : l * ldb + j)]);
        REQUIRE(std::abs(static_cast<double>(c[at]) - want) <= (sizeof(T) == 4 ? 1e-5 : 1e-13));
      }
    }
  }
}

}  // namespace
