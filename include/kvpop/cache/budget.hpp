#pragma once

#include "kvpop/core/checked.hpp"  // checked_add

KVPOP_NAMESPACE_BEGIN

/// How many KV entries each KV head holds, and in which region (docs/method.md section 1): the first `sinks` tokens,
/// the newest `window` tokens, and the `topk` of highest priority among all others.
struct budget {
  index_t sinks = 4;     ///< kept for good
  index_t window = 256;  ///< the newest, the token being processed included; at least 1
  index_t topk = 0;      ///< long-range places

  /// sinks + window + topk, the slots of a head. Precondition: `validate` passed.
  [[nodiscard]] constexpr index_t capacity() const noexcept { return sinks + window + topk; }

  /// Throws `error` unless sinks, topk >= 0, window >= 1 and the capacity fits 31 bits (slot ids are 32-bit).
  void validate() const {
    expects(sinks >= 0, "budget.sinks", sinks, "at least 0");
    expects(window >= 1, "budget.window", window, "at least 1: a token always sees itself");
    expects(topk >= 0, "budget.topk", topk, "at least 0");
    const index_t sum = checked_add(checked_add(sinks, window, "budget"), topk, "budget");
    expects(sum < (index_t{1} << 31), "budget.capacity()", sum, "less than 2^31");
  }

  friend constexpr bool operator==(const budget&, const budget&) noexcept = default;
};

KVPOP_NAMESPACE_END
