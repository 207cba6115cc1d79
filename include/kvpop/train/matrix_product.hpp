#pragma once

#include <concepts>

#include "kvpop/core/config.hpp"  // index_t

/// @file
/// The matrix product that training is made of, as a seam: hand over your BLAS, or use `plain_product`.

KVPOP_NAMESPACE_BEGIN

/// How a factor is read.
enum class transpose : bool { no, yes };

/// A matrix product of T, row-major: c [m, n] (+)= a [m, k] b [k, n].
///
/// product(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, add): with transpose::yes a is stored as [k, m], b as [n, k]; ld* are
/// elements from stored row to stored row; add says whether c is added to or overwritten. Called from several threads at
/// once, on operands that do not overlap: a BLAS must be told to use one thread. k may be 0.
template <class P, class T>
concept matrix_product = requires(const P& product, transpose t, index_t n, const T* a, T* c) {
  { product(t, t, n, n, n, a, n, a, n, c, n, true) }
  noexcept;
};

/// The product without a library: plain loops over whole rows, which compilers vectorise. Needs no memory. Of use where
/// there is no BLAS, and in double for checks.
struct plain_product {
  template <class T>
  void operator()(transpose ta, transpose tb, index_t m, index_t n, index_t k, const T* a, index_t lda, const T* b,
                  index_t ldb, T* c, index_t ldc, bool add) const noexcept {
    for (index_t i = 0; i < m; ++i) {
      T* row = c + i * ldc;
      for (index_t j = 0; j < n && !add; ++j) row[j] = T{0};
      for (index_t l = 0; l < k; ++l) {
        const T x = ta == transpose::no ? a[i * lda + l] : a[l * lda + i];
        if (tb == transpose::no) {
          for (index_t j = 0; j < n; ++j) row[j] += x * b[l * ldb + j];
        } else {
          for (index_t j = 0; j < n; ++j) row[j] += x * b[j * ldb + l];
        }
      }
    }
  }
};

KVPOP_NAMESPACE_END
