#pragma once

#include <cstddef>
#include <new>

namespace kvpop_test {

/// What went through a `counting_allocator`.
struct allocation_counts {
  std::size_t allocations = 0;
  std::size_t deallocations = 0;
  std::size_t bytes = 0;      // live now
  std::size_t alignment = 0;  // of the last one
};

/// How a `counting_allocator` fails.
enum class failure { none, null, bad_alloc };

/// An allocator for `buffer` and `budgeted_cache` that counts, checks what comes back, and fails on request.
class counting_allocator {
 public:
  explicit counting_allocator(allocation_counts& counts, failure fails = failure::none)
      : counts_(&counts), fails_(fails) {}

  std::byte* allocate(std::size_t bytes, std::size_t alignment) {
    if (fails_ == failure::bad_alloc) {
      throw std::bad_alloc();
    }
    if (fails_ == failure::null) {
      return nullptr;
    }
    ++counts_->allocations;
    counts_->bytes += bytes;
    counts_->alignment = alignment;
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t(alignment)));
  }

  void deallocate(std::byte* p, std::size_t bytes, std::size_t alignment) noexcept {
    ++counts_->deallocations;
    counts_->bytes -= bytes;
    ::operator delete(p, std::align_val_t(alignment));
  }

 private:
  allocation_counts* counts_;
  failure fails_;
};

}  // namespace kvpop_test
