#pragma once

#include <utility>

#include "kvpop/cache/cache_ref.hpp"  // budgeted_cache_ref
#include "kvpop/cache/reset.hpp"      // clear
#include "kvpop/core/buffer.hpp"      // buffer

KVPOP_NAMESPACE_BEGIN

/// Owns the memory of one layer's cache: a move-only object with one allocation, made at construction. Everything
/// is done through `ref()`, which stays valid until the owner is destroyed or assigned to.
///
///     kvpop::budgeted_cache<kvpop::bfloat16, 128> cache({.sequences = 1, .kv_heads = 8}, {.sinks = 4, .topk = 3772});
template <class T, index_t KeyDim, index_t ValueDim = KeyDim, byte_allocator Allocator = host_allocator>
class budgeted_cache {
 public:
  using ref_type = budgeted_cache_ref<T, KeyDim, ValueDim>;

  /// An empty cache. Throws `error` when shape or budget are invalid, their bytes overflow, or memory is not to be had.
  explicit budgeted_cache(const cache_shape& shape, const kvpop::budget& limits, Allocator allocator = {})
      : shape_((ref_type::validate(shape, limits), shape)),
        budget_(limits),
        memory_(static_cast<index_t>(ref_type::bytes(shape, limits)), std::move(allocator)) {
    clear(ref());
  }

  [[nodiscard]] ref_type ref() noexcept {
    carver memory({memory_.data(), memory_.bytes()}, "budgeted_cache");
    return ref_type(ref_type::carve(memory, shape_, budget_), shape_, budget_);
  }

  /// Bytes allocated: keys, values, scorer memory and bookkeeping.
  [[nodiscard]] std::size_t bytes() const noexcept { return memory_.bytes(); }

 private:
  cache_shape shape_;
  kvpop::budget budget_;
  buffer<std::byte, host_memory, Allocator> memory_;
};

KVPOP_NAMESPACE_END
