#pragma once

#include <cstdint>  // std::uint64_t

#include "kvpop/core/config.hpp"  // index_t

KVPOP_NAMESPACE_BEGIN

/// What radix_sort sorts: a value, usually an index, under an unsigned key.
struct keyed {
  std::uint64_t key;
  index_t value;
};

/// Moves n items to `target` in the order of one byte of their keys, equal bytes as they were.
///
/// \param offsets  [256] where each byte's items begin; destroyed
inline void radix_pass(const keyed* source, keyed* target, index_t n, unsigned shift, index_t* offsets) noexcept {
  for (index_t i = 0; i < n; ++i) {
    target[offsets[(source[i].key >> shift) & 0xff]++] = source[i];
  }
}

/// Insertion sort by key, stable: what a few items are sorted by.
inline void insertion_sort(keyed* items, index_t n) noexcept {
  for (index_t i = 1; i < n; ++i) {
    const keyed item = items[i];
    index_t hole = i;
    for (; hole > 0 && items[hole - 1].key > item.key; --hole) {
      items[hole] = items[hole - 1];
    }
    items[hole] = item;
  }
}

/// Sorts by ascending key; items of equal keys stay in the order they had.
///
/// Least significant byte first; bytes that are the same in all keys are skipped.
///
/// \param items    [n] in and out
/// \param scratch  [n]
///
/// Complexity: O(n), at most 9 passes over 16 bytes an item. Allocates: no (8 KiB of stack).
inline void radix_sort(keyed* items, keyed* scratch, index_t n) noexcept {
  constexpr index_t few = 32;
  if (n <= few) {
    insertion_sort(items, n);
    return;
  }
  std::uint64_t differing = 0;
  for (index_t i = 1; i < n; ++i) {
    differing |= items[i].key ^ items[0].key;
  }
  keyed* source = items;
  keyed* target = scratch;
  for (unsigned shift = 0; shift < 64; shift += 8) {
    if (((differing >> shift) & 0xff) == 0) {
      continue;
    }
    index_t offsets[256] = {};
    for (index_t i = 0; i < n; ++i) {
      ++offsets[(source[i].key >> shift) & 0xff];
    }
    index_t begin = 0;
    for (index_t& offset : offsets) {
      const index_t count = offset;
      offset = begin;
      begin += count;
    }
    radix_pass(source, target, n, shift, offsets);
    keyed* const swapped = source;
    source = target;
    target = swapped;
  }
  if (source != items) {
    for (index_t i = 0; i < n; ++i) {
      items[i] = source[i];
    }
  }
}

KVPOP_NAMESPACE_END
