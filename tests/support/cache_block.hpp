#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "kvpop/cache/reset.hpp"   // clear
#include "kvpop/core/error.hpp"    // error
#include "support/message_of.hpp"  // message_of

/// Caches whose memory the test owns, so that every byte of them can be compared.
namespace kvpop_test {

using kvpop::index_t;

/// One cache in one block. Every byte the library does not write keeps the value it was poisoned with.
template <class T, index_t KeyDim, index_t ValueDim = KeyDim>
class cache_block {
 public:
  using ref_type = kvpop::budgeted_cache_ref<T, KeyDim, ValueDim>;

  cache_block(const kvpop::cache_shape& shape, const kvpop::budget& limits, unsigned char poison = 0xa5)
      : shape_(shape),
        budget_(limits),
        bytes_(ref_type::bytes(shape, limits)),
        data_(new (std::align_val_t(64)) std::byte[bytes_]) {
    std::memset(data_, poison, bytes_);
    kvpop::clear(ref());
  }
  cache_block(const cache_block&) = delete;
  cache_block& operator=(const cache_block&) = delete;
  ~cache_block() { ::operator delete[](data_, std::align_val_t(64)); }

  [[nodiscard]] ref_type ref() const {
    kvpop::carver memory({data_, bytes_}, "cache_block");
    return ref_type(ref_type::carve(memory, shape_, budget_), shape_, budget_);
  }

  [[nodiscard]] const std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return bytes_; }

  /// All bytes as they are now.
  [[nodiscard]] std::vector<std::byte> snapshot() const { return {data_, data_ + bytes_}; }

 private:
  kvpop::cache_shape shape_;
  kvpop::budget budget_;
  std::size_t bytes_;
  std::byte* data_;
};

/// Appends the bytes of `count` elements to `out`.
template <class T>
void put_bytes(std::vector<std::byte>& out, const T* from, index_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  const std::size_t before = out.size();
  out.resize(before + bytes);  // and not insert: g++ 12 then sees an overflow that is not there
  if (bytes != 0) std::memcpy(out.data() + before, from, bytes);
}

/// Everything that is part of one sequence's state, as bytes: held keys and values slot by slot, positions, priorities,
/// pins, rings, scorer memory, counters. Keys and values of empty slots are not.
template <class T, index_t KeyDim, index_t ValueDim>
std::vector<std::byte> state_of(const kvpop::budgeted_cache_ref<T, KeyDim, ValueDim>& cache, index_t sequence) {
  std::vector<std::byte> out;
  const index_t counters[3] = {cache.seen(sequence), cache.limit(sequence), cache.pins(sequence)};
  put_bytes(out, counters, 3);
  for (index_t h = 0; h < cache.kv_heads(); ++h) {
    const kvpop::head_state<T> head = cache.head(sequence, h);
    put_bytes(out, head.held, 1);
    put_bytes(out, head.keys, *head.held * KeyDim);
    put_bytes(out, head.values, *head.held * ValueDim);
    put_bytes(out, head.positions, cache.slots());
    put_bytes(out, head.priorities, cache.slots());
    put_bytes(out, head.pinned, cache.slots());
    put_bytes(out, head.memory, cache.shape().memory);
    put_bytes(out, head.ring, cache.budget().window);
  }
  return out;
}

/// The same of all sequences.
template <class T, index_t KeyDim, index_t ValueDim>
std::vector<std::byte> state_of(const kvpop::budgeted_cache_ref<T, KeyDim, ValueDim>& cache) {
  std::vector<std::byte> out;
  for (index_t b = 0; b < cache.sequences(); ++b) {
    const std::vector<std::byte> one = state_of(cache, b);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

}  // namespace kvpop_test
