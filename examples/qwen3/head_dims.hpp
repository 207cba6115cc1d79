#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "error.hpp"             // load_error
#include "kvpop/core/visit.hpp"  // visit

namespace qwen3 {

/// The head dimensions that are compiled, the CMake option KVPOP_QWEN3_HEAD_DIMS: each costs compile time and nothing else.
inline constexpr auto head_dims = std::to_array<std::int64_t>({KVPOP_QWEN3_HEAD_DIMS});

/// Throws load_error naming the compiled head dimensions when this is not one of them.
inline void check_head_dim(std::int64_t head_dim) {
  if (std::find(head_dims.begin(), head_dims.end(), head_dim) != head_dims.end()) return;
  std::string list;
  for (const std::int64_t dim : head_dims) list += (list.empty() ? "" : ", ") + std::to_string(dim);
  throw load_error("head_dim is " + std::to_string(head_dim) + "; this engine is compiled for " + list +
                   " (CMake option KVPOP_QWEN3_HEAD_DIMS)");
}

/// Calls f with the head dimension as a compile-time constant.
template <class F>
decltype(auto) visit_head_dim(std::int64_t head_dim, F&& f) {
  return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    return kvpop::visit<head_dims[I]...>(head_dim, std::forward<F>(f));
  }
  (std::make_index_sequence<head_dims.size()>{});
}

}  // namespace qwen3
