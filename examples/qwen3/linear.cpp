#include "linear.hpp"

#include <cblas.h>

#include <algorithm>
#include <string>

#include "kvpop/core/error.hpp"  // expects
#include "kvpop/core/simd.hpp"   // load, fma, reduce_add

namespace qwen3 {

namespace {

using kvpop::host_context;
using kvpop::index_t;
namespace simd = kvpop::simd;

// A block of W is converted to f32 and multiplied while it is in the second-level cache.
constexpr index_t panel_out = 256;
constexpr index_t panel_in = 1024;
// Rows of x that one task multiplies; more than one task shares a panel when there are more rows.
constexpr index_t block_rows = 512;
// Below this many multiplications waking the threads costs more than they bring.
constexpr index_t parallel_from = index_t{1} << 19;
// Rows of x that share one pass over a row of W.
constexpr index_t shared_rows = simd::lanes == 16 ? 4 : 2;  // 4 sums for each must stay in registers

// y[r] = x[r] . w for Rows rows of x [Rows, n]: the order of simd::dot for each, so that the sums of a row do not depend
// on how many rows are taken at once.
template <index_t Rows, class T>
void dot_rows(const float* x, const T* w, index_t n, float* y) noexcept {
  constexpr index_t lanes = simd::lanes;
  simd::vec sum[Rows][4] = {};
  index_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const simd::vec w0 = simd::load(w + i), w1 = simd::load(w + i + lanes);
    const simd::vec w2 = simd::load(w + i + 2 * lanes), w3 = simd::load(w + i + 3 * lanes);
    for (index_t r = 0; r < Rows; ++r) {
      const float* row = x + r * n + i;
      sum[r][0] = simd::fma(simd::load(row), w0, sum[r][0]);
      sum[r][1] = simd::fma(simd::load(row + lanes), w1, sum[r][1]);
      sum[r][2] = simd::fma(simd::load(row + 2 * lanes), w2, sum[r][2]);
      sum[r][3] = simd::fma(simd::load(row + 3 * lanes), w3, sum[r][3]);
    }
  }
  for (; i + lanes <= n; i += lanes) {
    const simd::vec w0 = simd::load(w + i);
    for (index_t r = 0; r < Rows; ++r) sum[r][0] = simd::fma(simd::load(x + r * n + i), w0, sum[r][0]);
  }
  if (i < n) {
    const simd::vec w1 = simd::load_first(w + i, n - i);
    for (index_t r = 0; r < Rows; ++r) sum[r][1] = simd::fma(simd::load_first(x + r * n + i, n - i), w1, sum[r][1]);
  }
  for (index_t r = 0; r < Rows; ++r) y[r] = simd::reduce_add((sum[r][0] + sum[r][1]) + (sum[r][2] + sum[r][3]));
}

// Outputs [begin, end) of few rows: every row of W is read once from memory.
template <class T>
void multiply_few(const float* x, index_t rows, const T* w, index_t out, index_t in, const float* bias, float* y,
                  index_t begin, index_t end) noexcept {
  float sums[shared_rows];
  for (index_t o = begin; o < end; ++o) {
    const T* row = w + o * in;
    const float shift = bias == nullptr ? 0.0F : bias[o];
    index_t r = 0;
    for (; r + shared_rows <= rows; r += shared_rows) {
      dot_rows<shared_rows>(x + r * in, row, in, sums);
      for (index_t j = 0; j < shared_rows; ++j) y[(r + j) * out + o] = sums[j] + shift;
    }
    for (; r < rows; ++r) {
      dot_rows<1>(x + r * in, row, in, sums);
      y[r * out + o] = sums[0] + shift;
    }
  }
}

template <class T>
void linear_few(const host_context& ctx, const float* x, index_t rows, const T* w, index_t out, index_t in,
                const float* bias, float* y) {
  const bool alone = rows * out * in < parallel_from;
  const index_t tasks = alone ? 1 : std::min<index_t>(out, ctx.threads() * index_t{4});
  ctx.parallel_for(tasks, [=](index_t i) noexcept {
    multiply_few(x, rows, w, out, in, bias, y, out * i / tasks, out * (i + 1) / tasks);
  });
}

// y [rows, n] (row stride out) += or = x [rows, k] (stride in) times w [n, k] (stride w_stride), transposed.
void sgemm(const float* x, index_t rows, index_t in, const float* w, index_t w_stride, index_t n, index_t k, float* y,
           index_t out, bool add) noexcept {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows), static_cast<int>(n), static_cast<int>(k),
              1.0F, x, static_cast<int>(in), w, static_cast<int>(w_stride), add ? 1.0F : 0.0F, y,
              static_cast<int>(out));
}

void multiply_panel(const float* x, index_t rows, const float* w, index_t n, index_t in, float* y, index_t out,
                    bool add, float* /*scratch*/) noexcept {
  sgemm(x, rows, in, w, in, n, in, y, out, add);
}

// The same for 16-bit weights, converted block by block into scratch [n, panel_in].
template <class T>
void multiply_panel(const float* x, index_t rows, const T* w, index_t n, index_t in, float* y, index_t out, bool add,
                    float* scratch) noexcept {
  for (index_t begin = 0; begin < in; begin += panel_in) {
    const index_t k = std::min(panel_in, in - begin);
    for (index_t o = 0; o < n; ++o) {
      const T* from = w + o * in + begin;
      float* to = scratch + o * k;
      index_t i = 0;
      for (; i + simd::lanes <= k; i += simd::lanes) simd::store(to + i, simd::load(from + i));
      for (; i < k; ++i) to[i] = static_cast<float>(from[i]);
    }
    sgemm(x + begin, rows, in, scratch, k, n, k, y, out, add || begin > 0);
  }
}

// Blocks of [block_rows, panel_out] outputs, in a grid that does not depend on the threads.
template <class T>
void linear_many(const host_context& ctx, const float* x, index_t rows, const T* w, index_t out, index_t in,
                 const float* bias, float* y, float* scratch) {
  const index_t panels = (out + panel_out - 1) / panel_out;
  const index_t blocks = panels * ((rows + block_rows - 1) / block_rows);
  const bool alone = rows * out * in < parallel_from;
  const index_t tasks = alone ? 1 : std::min<index_t>(blocks, ctx.threads());  // one scratch each
  ctx.parallel_for(tasks, [=](index_t task) noexcept {
    float* own = scratch + task * panel_out * panel_in;
    for (index_t block = blocks * task / tasks; block < blocks * (task + 1) / tasks; ++block) {
      const index_t o = block % panels * panel_out, n = std::min(panel_out, out - o);
      const index_t r = block / panels * block_rows, m = std::min(block_rows, rows - r);
      if (bias != nullptr) {
        for (index_t j = r; j < r + m; ++j) std::copy(bias + o, bias + o + n, y + j * out + o);
      }
      multiply_panel(x + r * in, m, w + o * in, n, in, y + r * out + o, out, bias != nullptr, own);
    }
  });
}

}  // namespace

std::int64_t linear_scratch(const host_context& ctx) { return ctx.threads() * panel_out * panel_in; }

void linear(const host_context& ctx, const float* x, std::int64_t rows, const weight_matrix& w, const float* bias,
            float* y, std::span<float> scratch) {
  kvpop::expects(rows >= 0, "linear: rows", rows, "at least 0");
  const auto floats = static_cast<index_t>(scratch.size());
  kvpop::expects(floats >= linear_scratch(ctx), "linear: scratch", floats, "at least linear_scratch(ctx) floats");
  // The context spreads the work; threads of OpenBLAS beneath it would only get in its way.
  static const bool single = (openblas_set_num_threads(1), true);
  static_cast<void>(single);
  if (rows == 0) return;
  visit_elements(w, [&](const auto* elements) {
    if (rows < linear_few_rows) {
      linear_few(ctx, x, rows, elements, w.out, w.in, bias, y);
    } else {
      linear_many(ctx, x, rows, elements, w.out, w.in, bias, y, scratch.data());
    }
  });
}

void copy_row(const weight_matrix& w, std::int64_t row, float* out) {
  kvpop::expects(row >= 0 && row < w.out, "copy_row: row", row, ("0 to " + std::to_string(w.out - 1)).c_str());
  visit_elements(w, [&](const auto* elements) {
    const auto* from = elements + row * w.in;
    for (index_t i = 0; i < w.in; ++i) out[i] = static_cast<float>(from[i]);
  });
}

}  // namespace qwen3
