#pragma once

#include "kvpop/core/view.hpp"  // view

KVPOP_NAMESPACE_BEGIN

/// A token that a step evicted, and the slot it left to the new token; position -1 when nothing was evicted.
struct eviction {
  index_t position = -1;
  index_t slot = -1;

  friend constexpr bool operator==(const eviction&, const eviction&) noexcept = default;
};

/// What each token of a chunk evicted: [sequences, tokens, kv_heads].
using eviction_view = view<eviction, host_memory, axis::sequence, axis::token, axis::head>;

KVPOP_NAMESPACE_END
