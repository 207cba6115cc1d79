#pragma once

#include "kvpop/cache/budget.hpp"  // budget
#include "kvpop/core/checked.hpp"  // checked_multiply

KVPOP_NAMESPACE_BEGIN

/// Bytes of one KV entry of a head as the cache stores it.
template <class T>
[[nodiscard]] index_t entry_bytes(index_t key_dim, index_t value_dim) {
  return checked_multiply(checked_add(key_dim, value_dim, "entry_bytes"), static_cast<index_t>(sizeof(T)),
                          "entry_bytes");
}

/// KV entries of a head that weigh as much as its scorer's memory, rounded up; 0 for a stateless scorer.
///
/// memory_size: floats of memory per (sequence, kv head); bytes_per_entry: `entry_bytes<T>(key_dim, value_dim)`. All
/// methods are compared at equal bytes (docs/method.md section 1). Throws `error` on a negative size or empty entries.
[[nodiscard]] inline index_t memory_charge(index_t memory_size, index_t bytes_per_entry) {
  expects(memory_size >= 0, "memory_charge: memory_size", memory_size, "at least 0");
  expects(bytes_per_entry >= 1, "memory_charge: bytes_per_entry", bytes_per_entry, "at least 1");
  const index_t bytes = checked_multiply(memory_size, static_cast<index_t>(sizeof(float)), "memory_charge");
  return bytes / bytes_per_entry + (bytes % bytes_per_entry != 0 ? 1 : 0);
}

/// The budget of `entries` KV entries a head of which `charge` pay for the scorer's memory: topk is what sinks, window and
/// charge leave (0 is allowed).
///
/// Throws `error` naming the entries and what they must cover when that is negative.
[[nodiscard]] inline budget charged_budget(index_t entries, index_t sinks, index_t window, index_t charge) {
  expects(charge >= 0, "charged_budget: charge", charge, "at least 0");
  budget b{.sinks = sinks, .window = window, .topk = 0};
  b.validate();
  const index_t taken = checked_add(b.capacity(), charge, "charged_budget");
  if (entries < taken) [[unlikely]] {
    fail("charged_budget: entries is " + std::to_string(entries) + "; it must be at least " + std::to_string(taken) +
         ": sinks " + std::to_string(sinks) + " + window " + std::to_string(window) + " + charge " +
         std::to_string(charge) + " of the scorer's memory");
  }
  b.topk = entries - taken;
  b.validate();
  return b;
}

KVPOP_NAMESPACE_END
