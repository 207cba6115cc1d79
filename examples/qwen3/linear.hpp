#pragma once

#include <cstdint>
#include <span>

#include "kvpop/core/context.hpp"  // host_context
#include "weight_matrix.hpp"       // weight_matrix

namespace qwen3 {

/// Floats of scratch that `linear` may use on this context, whatever the matrix: 1 MiB a thread.
std::int64_t linear_scratch(const kvpop::host_context& ctx);

/// y = x W^T + bias: the one matrix product of the engine.
///
/// x [rows, in], y [rows, out], both contiguous; bias [out] or nullptr; scratch at least `linear_scratch(ctx)` floats,
/// aligned for float. Accumulates in f32 whatever the weights' dtype, and converts those on the way. Few rows (decode)
/// read each weight once at the speed of memory; from `linear_few_rows` on, OpenBLAS's sgemm multiplies blocks, on as
/// many threads as the context has and no more. Does not allocate (OpenBLAS keeps its own buffers).
///
/// Deterministic: equal shapes give equal bits for any number of threads. Below `linear_few_rows` a row's result does
/// not depend on the other rows either.
void linear(const kvpop::host_context& ctx, const float* x, std::int64_t rows, const weight_matrix& w,
            const float* bias, float* y, std::span<float> scratch);

/// The smallest number of rows that goes to sgemm.
inline constexpr std::int64_t linear_few_rows = 9;

/// Row `row` of w as f32: the embedding of a token. out [in].
void copy_row(const weight_matrix& w, std::int64_t row, float* out);

}  // namespace qwen3
