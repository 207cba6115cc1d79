#pragma once

#include <array>
#include <string>

#include "kvpop/core/error.hpp"  // fail
#include "kvpop/core/view.hpp"   // view

KVPOP_NAMESPACE_BEGIN

/// The cold halves of the checks below.
[[noreturn]] KVPOP_COLD inline void fail_extent(const char* name, const char* axis, index_t value, index_t expected) {
  fail(std::string(name) + ".extent(" + axis + ") is " + std::to_string(value) + "; expected " +
       std::to_string(expected));
}
[[noreturn]] KVPOP_COLD inline void fail_stride(const char* name, const char* axis, index_t value) {
  fail(std::string(name) + ".stride(" + axis + ") is " + std::to_string(value) + "; it must be 1");
}
[[noreturn]] KVPOP_COLD inline void fail_data(const char* name) { fail(std::string(name) + " has no data"); }

/// Throws `error` unless a view has these extents: "kvpop: append: k.extent(head) is 4; expected 8". `name` is the verb
/// and the argument.
template <class T, class Memory, class... Axes>
void expects_extents(const char* name, const view<T, Memory, Axes...>& x,
                     const std::array<index_t, sizeof...(Axes)>& expected) {
  constexpr const char* names[] = {Axes::name...};
  for (std::size_t a = 0; a < sizeof...(Axes); ++a) {
    if (x.extents()[a] != expected[a]) [[unlikely]] {
      fail_extent(name, names[a], x.extents()[a], expected[a]);
    }
  }
}

/// Throws `error` when a view promises elements and has no data.
template <class T, class Memory, class... Axes>
void expects_data(const char* name, const view<T, Memory, Axes...>& x) {
  bool promised = true;
  for (const index_t n : x.extents()) {
    promised = promised && n > 0;
  }
  if (promised && x.data() == nullptr) [[unlikely]] {
    fail_data(name);
  }
}

/// Throws `error` unless there is data and the last axis is contiguous: what kernels that walk rows by pointer need.
template <class T, class Memory, class... Axes>
void expects_rows(const char* name, const view<T, Memory, Axes...>& x) {
  constexpr const char* names[] = {Axes::name...};
  constexpr std::size_t last = sizeof...(Axes) - 1;
  if (x.strides()[last] != 1 && x.extents()[last] > 1) [[unlikely]] {
    fail_stride(name, names[last], x.strides()[last]);
  }
  expects_data(name, x);
}

KVPOP_NAMESPACE_END
