#pragma once

#include <cblas.h>

#include "kvpop/train/matrix_product.hpp"  // matrix_product

namespace qwen3 {

/// kvpop's matrix product by OpenBLAS. `linear` has told it to use one thread: tasks are spread by the context.
struct blas_product {
  void operator()(kvpop::transpose ta, kvpop::transpose tb, kvpop::index_t m, kvpop::index_t n, kvpop::index_t k,
                  const float* a, kvpop::index_t lda, const float* b, kvpop::index_t ldb, float* c, kvpop::index_t ldc,
                  bool add) const noexcept {
    const auto flag = [](kvpop::transpose t) { return t == kvpop::transpose::yes ? CblasTrans : CblasNoTrans; };
    cblas_sgemm(CblasRowMajor, flag(ta), flag(tb), static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), 1.0F,
                a, static_cast<int>(lda), b, static_cast<int>(ldb), add ? 1.0F : 0.0F, c, static_cast<int>(ldc));
  }
};

}  // namespace qwen3
