#pragma once

#include <array>
#include <span>
#include <string>

#include "kvpop/cache/cache_ref.hpp"   // budgeted_cache_ref
#include "kvpop/cache/eviction.hpp"    // eviction_view
#include "kvpop/core/view_checks.hpp"  // chunk_view, expects_rows
#include "kvpop/score/scorer.hpp"      // scorer

KVPOP_NAMESPACE_BEGIN

/// How many of a chunk's tokens are a sequence's own: all of them, unless `counts` [sequences] says otherwise.
inline index_t count_of(std::span<const index_t> counts, index_t sequence, index_t tokens) noexcept {
  return counts.empty() ? tokens : counts[static_cast<std::size_t>(sequence)];
}

/// Throws `error` unless a tensor is [sequences, tokens, heads, dim] with the extents that are asked for, a contiguous last
/// axis and data. `name` is its name in messages, such as "append: k".
template <class U>
void expects_chunk(const char* name, const chunk_view<U>& x, const std::array<index_t, 4>& extents) {
  expects_extents(name, x, extents);
  expects_rows(name, x);
}

/// Throws `error` unless the scorer fits the cache: heads, dimensions, delay and memory.
template <class T, index_t KeyDim, index_t ValueDim, scorer Scorer>
void expects_scorer(const std::string& verb, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache,
                    const Scorer& scorer) {
  const auto same = [&](const char* what, index_t made_for, index_t here) {
    if (made_for != 0 && made_for != here) [[unlikely]] {
      fail(verb + ": scorer." + what + " is " + std::to_string(made_for) + "; the cache has " + std::to_string(here));
    }
  };
  same("kv_heads", kv_heads_of(scorer), cache.kv_heads());
  same("key_dim", key_dim_of(scorer), KeyDim);
  same("value_dim", value_dim_of(scorer), ValueDim);
  const index_t delay = delay_of(scorer);
  if (delay < 0 || delay > cache.budget().window) [[unlikely]] {
    fail(verb + ": scorer.delay is " + std::to_string(delay) +
         "; it must be at least 0 and at most budget.window = " + std::to_string(cache.budget().window));
  }
  if (memory_size_of(scorer) > cache.shape().memory) [[unlikely]] {
    fail(verb + ": scorer.memory_size is " + std::to_string(memory_size_of(scorer)) +
         "; the cache was made with cache_shape.memory = " + std::to_string(cache.shape().memory));
  }
}

/// Throws `error` unless every sequence's count is within the chunk.
template <class T, index_t KeyDim, index_t ValueDim>
void expects_counts(const std::string& verb, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache,
                    std::span<const index_t> counts, index_t tokens) {
  if (!counts.empty() && static_cast<index_t>(counts.size()) != cache.sequences()) [[unlikely]] {
    fail(verb + ": counts has " + std::to_string(counts.size()) + " entries; the cache has " +
         std::to_string(cache.sequences()) + " sequences");
  }
  for (index_t b = 0; b < cache.sequences(); ++b) {
    const index_t n = count_of(counts, b, tokens);
    if (n < 0 || n > tokens) [[unlikely]] {
      fail(verb + ": counts[" + std::to_string(b) + "] is " + std::to_string(n) +
           "; it must be at least 0 and at most the chunk's " + std::to_string(tokens) + " tokens");
    }
  }
}

/// Throws `error` unless what a sequence holds whole, its prompt, still fits with these tokens.
template <class T, index_t KeyDim, index_t ValueDim>
void expects_room(const std::string& verb, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache,
                  std::span<const index_t> counts, index_t tokens) {
  for (index_t b = 0; b < cache.sequences(); ++b) {
    const index_t n = count_of(counts, b, tokens);
    const bool whole = cache.limit(b) > cache.capacity();
    if (whole && n > cache.limit(b) - cache.seen(b)) [[unlikely]] {
      fail(verb + ": sequence " + std::to_string(b) + " would hold " + std::to_string(cache.seen(b) + n) +
           " tokens of its prompt; cache_shape.prompt is " + std::to_string(cache.shape().prompt));
    }
  }
}

/// Throws `error` unless the optional output for evictions is [sequences, tokens, kv_heads] or empty. `name` is its name in
/// messages, such as "append: evicted".
template <class T, index_t KeyDim, index_t ValueDim>
void expects_evicted(const char* name, const budgeted_cache_ref<T, KeyDim, ValueDim>& cache,
                     const eviction_view& evicted, index_t tokens) {
  if (evicted.data() != nullptr) expects_extents(name, evicted, {cache.sequences(), tokens, cache.kv_heads()});
}

/// The last act of a verb that appends: every sequence has seen its tokens.
template <class T, index_t KeyDim, index_t ValueDim>
void advance(const budgeted_cache_ref<T, KeyDim, ValueDim>& cache, std::span<const index_t> counts,
             index_t tokens) noexcept {
  for (index_t b = 0; b < cache.sequences(); ++b) {
    cache.arrays().seen[b] += count_of(counts, b, tokens);
  }
}

KVPOP_NAMESPACE_END
