#pragma once

#include <cstdint>

#include "kvpop/core/dtype.hpp"  // float16, bfloat16

namespace qwen3 {

enum class weight_type { f32, bf16, f16 };

constexpr std::int64_t bytes_of(weight_type type) { return type == weight_type::f32 ? 4 : 2; }

/// A matrix as the checkpoint stores it, row by row: [out, in], one row for each output. Not owned.
struct weight_matrix {
  const void* data = nullptr;  // aligned to its elements
  weight_type type = weight_type::f32;
  std::int64_t out = 0;
  std::int64_t in = 0;
};

/// Calls f with the matrix's data as a typed pointer: const float*, const kvpop::bfloat16* or const kvpop::float16*.
template <class F>
decltype(auto) visit_elements(const weight_matrix& w, F&& f) {
  switch (w.type) {
    case weight_type::bf16:
      return f(static_cast<const kvpop::bfloat16*>(w.data));
    case weight_type::f16:
      return f(static_cast<const kvpop::float16*>(w.data));
    case weight_type::f32:
      break;
  }
  return f(static_cast<const float*>(w.data));
}

}  // namespace qwen3
