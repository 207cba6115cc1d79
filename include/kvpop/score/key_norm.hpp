#pragma once

#include <cmath>

#include "kvpop/core/error.hpp"  // expects
#include "kvpop/core/simd.hpp"   // simd::dot

KVPOP_NAMESPACE_BEGIN

/// Drops the token with the largest key norm: a training-free control (docs/method.md section 7).
///
/// RoPE rotates and so keeps the norm; the position a key was rotated to does not matter.
class key_norm {
 public:
  /// `key_dim` tells where in x the key ends. Throws `error` unless it is at least 1.
  explicit key_norm(index_t key_dim) : key_dim_(key_dim) {
    expects(key_dim >= 1, "key_norm: key_dim", key_dim, "at least 1");
  }

  [[nodiscard]] index_t key_dim() const noexcept { return key_dim_; }

  /// -|k|; minus infinity when the square of the norm overflows float.
  [[nodiscard]] float score(index_t /*head*/, index_t /*position*/, const float* x,
                            const float* /*memory*/) const noexcept {
    return -std::sqrt(simd::dot(x, x, key_dim_));
  }

 private:
  index_t key_dim_;
};

KVPOP_NAMESPACE_END
