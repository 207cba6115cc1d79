#pragma once

#include <cmath>
#include <cstdint>

#include "kvpop/core/context.hpp"  // host_context
#include "kvpop/core/simd.hpp"     // dot

namespace qwen3 {

/// One row: y = x / sqrt(mean(x^2) + eps) * weight. x, weight, y [n]; y may be x.
inline void rms_norm_row(const float* x, std::int64_t n, const float* weight, double eps, float* y) noexcept {
  const double mean_square = static_cast<double>(kvpop::simd::dot(x, x, n)) / static_cast<double>(n);
  const auto scale = static_cast<float>(1.0 / std::sqrt(mean_square + eps));
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * scale * weight[i];
}

/// RMS norm of every row. x, y [rows, n], weight [n]; y may be x. The order of the sums depends on n alone.
inline void rms_norm(const kvpop::host_context& ctx, const float* x, std::int64_t rows, std::int64_t n,
                     const float* weight, double eps, float* y) {
  constexpr std::int64_t numbers_a_task = 1 << 16;  // fewer are done before a thread wakes
  const std::int64_t task_rows = numbers_a_task / n + 1;
  ctx.parallel_for((rows + task_rows - 1) / task_rows, [=](std::int64_t task) noexcept {
    const std::int64_t end = (task + 1) * task_rows < rows ? (task + 1) * task_rows : rows;
    for (std::int64_t r = task * task_rows; r < end; ++r) rms_norm_row(x + r * n, n, weight, eps, y + r * n);
  });
}

}  // namespace qwen3
