#pragma once

#include <cstddef>
#include <string>

#include "kvpop/core/checked.hpp"  // checked_add, checked_multiply
#include "kvpop/core/error.hpp"    // fail

KVPOP_NAMESPACE_BEGIN

/// Scratch memory that a verb borrows for the length of one call. The caller owns it; contents are unspecified after.
struct workspace {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// Carves arrays out of a workspace, or counts what they would take: one function describes a verb's scratch, and is
/// run once with `carver()` to size it and once with `carver(workspace, verb)` to use it, so the two cannot disagree.
class carver {
 public:
  static constexpr std::size_t alignment = 64;

  /// Counts only; `take` returns null.
  carver() noexcept = default;

  /// Carves. `verb` is named in the error when the workspace turns out too small.
  carver(const workspace& memory, const char* verb) noexcept : base_(memory.data), limit_(memory.bytes), verb_(verb) {}

  /// The next `count` elements of T, 64-byte aligned, uninitialised; null for none, which take no room.
  template <class T>
  T* take(index_t count) {
    if (count == 0) {
      return nullptr;
    }
    const index_t bytes = checked_multiply(count, static_cast<index_t>(sizeof(T)), "workspace");
    const index_t begin = checked_add(used_, padding(), "workspace");
    used_ = checked_add(begin, bytes, "workspace");
    if (verb_ == nullptr) {
      return nullptr;
    }
    if (static_cast<std::size_t>(used_) > limit_) [[unlikely]] {
      fail_small();
    }
    if (base_ == nullptr) [[unlikely]] {
      fail(std::string(verb_) + ": workspace.data is null; workspace.bytes is " + std::to_string(limit_));
    }
    return reinterpret_cast<T*>(base_ + begin);
  }

  /// Bytes taken so far. In count mode it leaves room to align a workspace that is not.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return used_ == 0 ? 0 : static_cast<std::size_t>(used_) + (verb_ == nullptr ? alignment - 1 : 0);
  }

 private:
  [[nodiscard]] index_t padding() const noexcept {
    const auto address = reinterpret_cast<std::size_t>(base_) + static_cast<std::size_t>(used_);
    return static_cast<index_t>((alignment - address % alignment) % alignment);
  }

  [[noreturn]] KVPOP_COLD void fail_small() const {
    fail(std::string(verb_) + ": workspace.bytes is " + std::to_string(limit_) + "; at least " + std::to_string(used_) +
         " are needed");
  }

  std::byte* base_ = nullptr;
  std::size_t limit_ = 0;
  const char* verb_ = nullptr;
  index_t used_ = 0;
};

KVPOP_NAMESPACE_END
