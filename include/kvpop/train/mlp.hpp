#pragma once

#include <cmath>

#include "kvpop/core/workspace.hpp"        // carver
#include "kvpop/train/matrix_product.hpp"  // matrix_product

/// @file
/// The MLP scorer of score/mlp.hpp for training: many tokens of one head at once, as matrix products, and its gradient
/// (docs/method.md section 4). T is float or double.

KVPOP_NAMESPACE_BEGIN

/// Sizes of one head's MLP, and where its parameters lie in one block: w1 [hidden, inputs], b1 [hidden], w2 [hidden], b2.
struct mlp_sizes {
  index_t inputs = 0;  ///< key_dim + value_dim
  index_t hidden = 0;

  [[nodiscard]] constexpr index_t b1() const noexcept { return hidden * inputs; }
  [[nodiscard]] constexpr index_t w2() const noexcept { return b1() + hidden; }
  [[nodiscard]] constexpr index_t b2() const noexcept { return w2() + hidden; }
  [[nodiscard]] constexpr index_t parameters() const noexcept { return b2() + 1; }
};

/// What the forward pass leaves for the backward pass, and that one's scratch.
template <class T>
struct mlp_tape {
  T* z = nullptr;   // [rows, hidden] w1 x + b1
  T* dz = nullptr;  // [rows, hidden]

  static mlp_tape carve(carver& memory, const mlp_sizes& sizes, index_t rows) {
    const index_t count = checked_multiply(rows, sizes.hidden, "mlp_tape");
    mlp_tape tape;
    tape.z = memory.take<T>(count);
    tape.dz = memory.take<T>(count);
    return tape;
  }
};

namespace train_kernel {

template <class T>
[[nodiscard]] T logistic(T x) noexcept {
  return T{1} / (T{1} + std::exp(-x));
}

}  // namespace train_kernel

/// r [rows] = the scores of x [rows, inputs], whose rows are x_stride elements apart. 2 * rows * parameters FLOP. Does not
/// allocate. Equal to mlp_ref up to rounding; the order of sums is the product's.
template <class T, matrix_product<T> Product>
void mlp_forward(const Product& product, const mlp_sizes& sizes, const T* parameters, const T* x, index_t x_stride,
                 index_t rows, const mlp_tape<T>& tape, T* r) noexcept {
  product(transpose::no, transpose::yes, rows, sizes.hidden, sizes.inputs, x, x_stride, parameters, sizes.inputs,
          tape.z, sizes.hidden, false);
  const T* b1 = parameters + sizes.b1();
  const T* w2 = parameters + sizes.w2();
  for (index_t i = 0; i < rows; ++i) {
    T* z = tape.z + i * sizes.hidden;
    T sum{};
    for (index_t j = 0; j < sizes.hidden; ++j) {
      z[j] += b1[j];
      sum += w2[j] * z[j] * train_kernel::logistic(z[j]);
    }
    r[i] = sum + parameters[sizes.b2()];
  }
}

/// Adds to gradient [parameters] the derivative of sum over rows of dr * r. tape: as mlp_forward left it, for the same x.
/// There is no gradient to x: scorer inputs are detached. 4 * rows * parameters FLOP. Does not allocate.
template <class T, matrix_product<T> Product>
void mlp_backward(const Product& product, const mlp_sizes& sizes, const T* parameters, const T* x, index_t x_stride,
                  index_t rows, const mlp_tape<T>& tape, const T* dr, T* gradient) noexcept {
  const T* w2 = parameters + sizes.w2();
  T* db1 = gradient + sizes.b1();
  T* dw2 = gradient + sizes.w2();
  for (index_t i = 0; i < rows; ++i) {
    const T* z = tape.z + i * sizes.hidden;
    T* dz = tape.dz + i * sizes.hidden;
    for (index_t j = 0; j < sizes.hidden; ++j) {
      const T s = train_kernel::logistic(z[j]);
      dw2[j] += dr[i] * z[j] * s;
      dz[j] = dr[i] * w2[j] * s * (T{1} + z[j] * (T{1} - s));  // silu' = s (1 + z (1 - s))
      db1[j] += dz[j];
    }
    gradient[sizes.b2()] += dr[i];
  }
  product(transpose::yes, transpose::no, sizes.hidden, sizes.inputs, rows, tape.dz, sizes.hidden, x, x_stride, gradient,
          sizes.inputs, true);
}

KVPOP_NAMESPACE_END
