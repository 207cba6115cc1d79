#pragma once

#include <algorithm>
#include <cstdint>

#include "kvpop/core/context.hpp"  // host_context
#include "kvpop/core/math.hpp"     // silu

namespace qwen3 {

/// Numbers that one task takes: fewer are done before another thread wakes.
inline constexpr std::int64_t elementwise_task = 1 << 16;

/// y += x, both [n].
inline void add(const kvpop::host_context& ctx, const float* x, std::int64_t n, float* y) {
  ctx.parallel_for((n + elementwise_task - 1) / elementwise_task, [=](std::int64_t task) noexcept {
    const std::int64_t end = std::min(n, (task + 1) * elementwise_task);
    for (std::int64_t i = task * elementwise_task; i < end; ++i) y[i] += x[i];
  });
}

/// gate = silu(gate) * up, both [n].
inline void silu_times(const kvpop::host_context& ctx, const float* up, std::int64_t n, float* gate) {
  namespace simd = kvpop::simd;
  ctx.parallel_for((n + elementwise_task - 1) / elementwise_task, [=](std::int64_t task) noexcept {
    const std::int64_t end = std::min(n, (task + 1) * elementwise_task);
    std::int64_t i = task * elementwise_task;
    for (; i + simd::lanes <= end; i += simd::lanes)
      simd::store(gate + i, simd::silu(simd::load(gate + i)) * simd::load(up + i));
    for (; i < end; ++i) gate[i] = simd::silu(gate[i]) * up[i];
  });
}

}  // namespace qwen3
