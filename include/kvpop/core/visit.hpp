#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "kvpop/core/error.hpp"  // fail

KVPOP_NAMESPACE_BEGIN

/// Turns a run-time head dimension into a compile-time one, over the list that the caller names and pays for:
///
///     visit<64, 128>(head_dim, [&](auto dim) { run<dim()>(); });
///
/// Returns what f returns. A value outside the list is an error that names the list.
template <index_t... Values, class F>
decltype(auto) visit(index_t value, F&& f) {
  static_assert(sizeof...(Values) > 0);
  constexpr index_t first = [](index_t v, auto...) { return v; }(Values...);
  using result = std::invoke_result_t<F&, std::integral_constant<index_t, first>>;
  if constexpr (std::is_void_v<result>) {
    const bool known =
        ((value == Values && (static_cast<void>(f(std::integral_constant<index_t, Values>{})), true)) || ...);
    if (known) {
      return;
    }
  } else {
    result (*chosen)(F&) = nullptr;
    static_cast<void>(
        ((value == Values &&
          (
              chosen = [](F& g) -> result { return g(std::integral_constant<index_t, Values>{}); }, true)) ||
         ...));
    if (chosen != nullptr) {
      return chosen(f);
    }
  }
  std::string list;
  ((list += (list.empty() ? "" : ", ") + std::to_string(Values)), ...);
  fail("visit: " + std::to_string(value) + " is not among the compiled values " + list);
}

KVPOP_NAMESPACE_END
