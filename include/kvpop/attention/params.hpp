#pragma once

#include <bit>      // bit_cast
#include <cstdint>  // bits of a float

#include "kvpop/core/error.hpp"  // fail, expects

KVPOP_NAMESPACE_BEGIN

/// What a model's attention does besides softmax(q k^T * scale) v. Anything else that a model has (ALiBi, sinks that are
/// learned logits, dropout) must be refused by the engine: there is no field for it here.
struct attention_params {
  float scale = 0.0F;          ///< factor of the logits; 0 stands for 1 / sqrt(key_dim)
  float soft_cap = 0.0F;       ///< c > 0: the scaled logit l becomes c * tanh(l / c) (Gemma 2); 0 = none
  index_t sliding_window = 0;  ///< W > 0: query q sees positions in (q - W, q] alone; 0 = no limit

  /// Throws `error` unless scale and soft_cap are finite and at least 0, and sliding_window is at least 0.
  void validate() const {
    expects_finite(scale, "attention_params.scale");
    expects_finite(soft_cap, "attention_params.soft_cap");
    expects(sliding_window >= 0, "attention_params.sliding_window", sliding_window, "at least 0 (0 = no limit)");
  }

  /// The factor in force for keys of `key_dim` components.
  [[nodiscard]] float scale_for(index_t key_dim) const noexcept {
    return scale != 0.0F ? scale : 1.0F / __builtin_sqrtf(static_cast<float>(key_dim));
  }

 private:
  // On bits: under -ffast-math a comparison with NaN or infinity means nothing.
  static void expects_finite(float value, const char* name) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (bits < 0x7f800000U || bits == 0x80000000U) return;
    fail(std::string(name) + " is " + std::to_string(value) + "; it must be finite and at least 0 (0 = default)");
  }
};

KVPOP_NAMESPACE_END
