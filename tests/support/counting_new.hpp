#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

/// Replaces operator new and delete of the whole test program by ones that count. Include it in exactly one file.
namespace kvpop_test {

inline std::atomic<long> operator_news{0};       // calls of any operator new, on any thread
inline std::atomic<std::size_t> largest_new{0};  // bytes of the largest since it was set to 0

/// Calls of operator new while `act` runs.
template <class Act>
long news_of(Act&& act) {
  const long before = operator_news.load();
  act();
  return operator_news.load() - before;
}

inline void* counted(std::size_t bytes, std::size_t alignment) noexcept {
  operator_news.fetch_add(1);
  std::size_t largest = largest_new.load();
  while (bytes > largest && !largest_new.compare_exchange_weak(largest, bytes)) {
  }
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment + (bytes == 0 ? alignment : 0));
}

inline void* counted_or_throw(std::size_t bytes, std::size_t alignment) {
  void* p = counted(bytes, alignment);
  if (p == nullptr) {
    throw std::bad_alloc();
  }
  return p;
}

constexpr std::size_t ordinary = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

}  // namespace kvpop_test

#if defined(__GNUC__) && !defined(__clang__)
// Inlined, these show g++ an aligned_alloc under a new and a free under a delete, which is how it is meant.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif

// The nothrow and array forms of the standard library call these.
void* operator new(std::size_t bytes) { return kvpop_test::counted_or_throw(bytes, kvpop_test::ordinary); }
void* operator new[](std::size_t bytes) { return kvpop_test::counted_or_throw(bytes, kvpop_test::ordinary); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return kvpop_test::counted(bytes, kvpop_test::ordinary);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return kvpop_test::counted(bytes, kvpop_test::ordinary);
}
void* operator new(std::size_t bytes, std::align_val_t a) {
  return kvpop_test::counted_or_throw(bytes, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t bytes, std::align_val_t a) {
  return kvpop_test::counted_or_throw(bytes, static_cast<std::size_t>(a));
}
void* operator new(std::size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return kvpop_test::counted(bytes, static_cast<std::size_t>(a));
}
void* operator new[](std::size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return kvpop_test::counted(bytes, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
