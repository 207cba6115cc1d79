#pragma once

#include "kvpop/core/error.hpp"  // expects

KVPOP_NAMESPACE_BEGIN

/// Sizes of a learned scorer's input: what one layer of the model stores a token.
struct scorer_input {
  index_t kv_heads = 0;
  index_t key_dim = 0;
  index_t value_dim = 0;

  /// Floats of x = [k ; v].
  [[nodiscard]] constexpr index_t size() const noexcept { return key_dim + value_dim; }

  /// Largest kv_heads, key_dim and value_dim: far beyond any model, small enough that no product overflows.
  static constexpr index_t max_heads = index_t{1} << 16;
  static constexpr index_t max_dim = index_t{1} << 13;

  /// Throws `error` unless all sizes are in [1, max].
  void validate() const {
    expects(kv_heads >= 1 && kv_heads <= max_heads, "scorer: kv_heads", kv_heads, "in 1 .. 65536");
    expects(key_dim >= 1 && key_dim <= max_dim, "scorer: key_dim", key_dim, "in 1 .. 8192");
    expects(value_dim >= 1 && value_dim <= max_dim, "scorer: value_dim", value_dim, "in 1 .. 8192");
  }
};

KVPOP_NAMESPACE_END
