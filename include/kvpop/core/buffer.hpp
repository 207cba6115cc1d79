#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "kvpop/core/checked.hpp"  // checked_multiply
#include "kvpop/core/memory.hpp"   // host_memory

KVPOP_NAMESPACE_BEGIN

/// What a buffer asks of its allocator. `allocate` returns null or throws when it cannot; sizes are never 0.
template <class A>
concept byte_allocator = requires(A a, std::byte* p, std::size_t bytes, std::size_t alignment) {
  { a.allocate(bytes, alignment) } -> std::same_as<std::byte*>;
  { a.deallocate(p, bytes, alignment) }
  noexcept;
};

/// The default: aligned operator new.
struct host_allocator {
  static std::byte* allocate(std::size_t bytes, std::size_t alignment) {
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t(alignment), std::nothrow));
  }
  static void deallocate(std::byte* p, std::size_t /*bytes*/, std::size_t alignment) noexcept {
    ::operator delete(p, std::align_val_t(alignment));
  }
};

/// A move-only owner of one 64-byte aligned array of trivial elements in one memory space.
///
/// Construction allocates once and does not initialise; nothing else allocates. An allocation that fails is an error
/// that names the size.
template <class T, class Memory = host_memory, byte_allocator Allocator = host_allocator>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr std::size_t alignment = 64;

  buffer() noexcept = default;

  /// `count` uninitialised elements.
  explicit buffer(index_t count, Allocator allocator = {}) : allocator_(std::move(allocator)) {
    expects(count >= 0, "buffer: count", count, "at least 0");
    const index_t bytes = checked_multiply(count, static_cast<index_t>(sizeof(T)), "buffer");
    if (bytes == 0) {
      return;
    }
    std::byte* p = allocator_.allocate(static_cast<std::size_t>(bytes), alignment);
    if (p == nullptr) [[unlikely]] {
      fail("buffer: " + std::to_string(bytes) + " bytes could not be allocated");
    }
    data_ = reinterpret_cast<T*>(p);
    size_ = count;
  }

  buffer(buffer&& other) noexcept
      : allocator_(std::move(other.allocator_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}

  buffer& operator=(buffer&& other) noexcept {
    if (this != &other) {
      release();
      allocator_ = std::move(other.allocator_);
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }

  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() { release(); }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] index_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(size_) * sizeof(T); }

 private:
  void release() noexcept {
    if (data_ != nullptr) {
      allocator_.deallocate(reinterpret_cast<std::byte*>(data_), bytes(), alignment);
    }
  }

  [[no_unique_address]] Allocator allocator_{};
  T* data_ = nullptr;
  index_t size_ = 0;
};

KVPOP_NAMESPACE_END
