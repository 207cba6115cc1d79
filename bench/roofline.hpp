#pragma once

#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "blas_kernel.hpp"             // restart_with_better_blas_kernel
#include "kvpop/core/context.hpp"      // host_context
#include "kvpop/core/simd.hpp"         // vec, fma
#include "kvpop/core/thread_pool.hpp"  // thread_pool

// What a benchmark is compared with: ceilings measured in the same run, by the same threads, on the same memory.
// OpenBLAS picks its kernel from the CPU: unset OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE in the benchmark's command.
namespace roofline {

using clock = std::chrono::steady_clock;

inline double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

// One pool for a benchmark binary: as many threads as the machine has.
inline kvpop::thread_pool& pool() {
  static kvpop::thread_pool threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  return threads;
}

// Sums with as many running sums as hide the latency of an addition; returns something to keep.
template <bool Ahead>
float sum_of(const float* p, kvpop::index_t count) {
  namespace simd = kvpop::simd;
  constexpr kvpop::index_t step = 8 * simd::lanes;
  simd::vec sum[8] = {};
  for (kvpop::index_t i = 0; i + step <= count; i += step) {
    for (int j = 0; j < 8; ++j) {
      if constexpr (Ahead) __builtin_prefetch(p + i + j * simd::lanes + 2048);
      sum[j] += simd::load(p + i + j * simd::lanes);
    }
  }
  for (int j = 1; j < 8; ++j) sum[0] += sum[j];
  return simd::reduce_add(sum[0]);
}

// Whether asking for lines ahead reads faster here: it does on some CPUs, on others it hinders their own prefetcher.
inline bool reading_ahead_is_faster() {
  static const bool answer = [] {
    const std::vector<float> memory(std::size_t{1} << 24, 1.0F);
    const auto best_of = [&](float (*read)(const float*, kvpop::index_t)) {
      double best = 1e9;
      for (int i = 0; i < 9; ++i) {
        const auto begin = clock::now();
        volatile float sink = read(memory.data(), static_cast<kvpop::index_t>(memory.size()));
        static_cast<void>(sink);
        best = std::min(best, seconds_since(begin));
      }
      return best;
    };
    return best_of(sum_of<true>) < best_of(sum_of<false>);
  }();
  return answer;
}

// Reads every byte once, the faster way.
inline float read_all(const float* p, kvpop::index_t count) {
  return reading_ahead_is_faster() ? sum_of<true>(p, count) : sum_of<false>(p, count);
}

// Seconds that the context's threads take to read `bytes` once.
inline double read_seconds(const kvpop::host_context& ctx, const void* data, std::size_t bytes) {
  const kvpop::index_t parts = 4 * ctx.threads();
  reading_ahead_is_faster();  // asked once, before the clock runs
  const auto count = static_cast<kvpop::index_t>(bytes / sizeof(float)) / parts;
  std::vector<float> kept(static_cast<std::size_t>(parts));
  const auto begin = clock::now();
  ctx.parallel_for(parts, [&](kvpop::index_t i) noexcept {
    kept[static_cast<std::size_t>(i)] = read_all(static_cast<const float*>(data) + i * count, count);
  });
  const double seconds = seconds_since(begin);
  volatile float sink = 0;
  for (const float x : kept) sink = x;
  static_cast<void>(sink);
  return seconds;
}

// Multiply-adds in registers alone: FLOP a second of all threads.
inline double fma_peak(const kvpop::host_context& ctx) {
  namespace simd = kvpop::simd;
  constexpr kvpop::index_t rounds = 1'000'000;
  constexpr int chains = 12;
  std::vector<float> kept(static_cast<std::size_t>(ctx.threads()));
  const auto run = [&](kvpop::index_t thread) noexcept {
    simd::vec x[chains];
    for (int j = 0; j < chains; ++j) x[j] = simd::broadcast(static_cast<float>(j + 1));
    const simd::vec a = simd::broadcast(0.999F);
    for (kvpop::index_t i = 0; i < rounds; ++i) {
      KVPOP_UNROLL
      for (int j = 0; j < chains; ++j) x[j] = simd::fma(x[j], a, a);
    }
    for (int j = 1; j < chains; ++j) x[0] += x[j];
    kept[static_cast<std::size_t>(thread)] = simd::reduce_add(x[0]);
  };
  ctx.parallel_for(ctx.threads(), run);  // warm
  const auto begin = clock::now();
  ctx.parallel_for(ctx.threads(), run);
  const double seconds = seconds_since(begin);
  volatile float sink = kept[0];
  static_cast<void>(sink);
  return 2.0 * static_cast<double>(rounds * chains * simd::lanes * ctx.threads()) / seconds;
}

// Seconds of c[m, n] = a[m, k] b[n, k]^T by OpenBLAS with the context's threads.
inline double sgemm_seconds(const kvpop::host_context& ctx, int m, int n, int k, const float* a, const float* b,
                            float* c) {
  openblas_set_num_threads(ctx.threads());
  const auto begin = clock::now();
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0F, a, k, b, k, 0.0F, c, n);
  return seconds_since(begin);
}

// The middle of some measurements.
inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

// One line about the machine, on stderr, before the results. Starts the program again where OpenBLAS does not know the CPU
// and has fallen back to its slowest kernel: that would be no ceiling.
inline void print_machine(char** argv) {
  qwen3::restart_with_better_blas_kernel(argv);
  const kvpop::host_context ctx = pool().context();
  std::fprintf(stderr, "%d threads, %d floats a vector, FMA peak %.0f GFLOP/s, OpenBLAS kernel %s, raw read %s\n",
               ctx.threads(), static_cast<int>(kvpop::simd::lanes), fma_peak(ctx) * 1e-9, openblas_get_corename(),
               reading_ahead_is_faster() ? "asks ahead" : "does not ask ahead");
}

}  // namespace roofline
