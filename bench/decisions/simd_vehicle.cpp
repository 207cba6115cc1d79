// Two kernels in four hands, for docs/decisions/0001-simd-vehicle.md: the logits of four queries over bf16 rows, and exp.
// simd_vehicle.sh compiles this file once for each vehicle (KVPOP_VEHICLE 1 to 4) and once as the program that times them
// in turns and compares them with double.
#include <cstdint>

#define KVPOP_VEHICLES(what) what(loops) what(stdx) what(vectors) what(intrinsics)

// The same hint before the short loops over sums of every vehicle.
#if defined(__clang__)
#define KVPOP_BENCH_UNROLL _Pragma("clang loop unroll(full)")
#else
#define KVPOP_BENCH_UNROLL _Pragma("GCC unroll 8")
#endif

constexpr int queries = 4;
constexpr int dim = 128;

// out[query][row] = q[query] . k[row], rows even; y = exp(x), count a multiple of 16.
#define KVPOP_DECLARE(name)                                                                              \
  void name##_logits(const float(*q)[dim], const std::uint16_t(*k)[dim], int rows, float* out) noexcept; \
  void name##_exp(const float* x, float* y, int count) noexcept;
KVPOP_VEHICLES(KVPOP_DECLARE)

#if KVPOP_VEHICLE == 1  // plain loops, as the optimiser likes them: sums in arrays, one entry a lane

#include <bit>

void loops_logits(const float (*q)[dim], const std::uint16_t (*k)[dim], int rows, float* out) noexcept {
  constexpr int lanes = 8;
  for (int row = 0; row < rows; ++row) {
    float sum[queries][lanes] = {};
    for (int d = 0; d < dim; d += lanes) {
      float x[lanes];
      KVPOP_BENCH_UNROLL
      for (int i = 0; i < lanes; ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(k[row][d + i]) << 16);
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) {
        KVPOP_BENCH_UNROLL
        for (int i = 0; i < lanes; ++i) sum[h][i] += q[h][d + i] * x[i];
      }
    }
    KVPOP_BENCH_UNROLL
    for (int h = 0; h < queries; ++h) {
      float total = 0;
      KVPOP_BENCH_UNROLL
      for (int i = 0; i < lanes; ++i) total += sum[h][i];
      out[h * rows + row] = total;
    }
  }
}

void loops_exp(const float* x, float* y, int count) noexcept {
  for (int i = 0; i < count; ++i) {
    float c = x[i] > -87.5F ? x[i] : -87.5F;
    c = c < 88.9F ? c : 88.9F;
    const float shifted = c * 1.44269504F + 0x1.8p23F;
    const auto n = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(shifted) - 0x4b400000U);
    const auto nf = static_cast<float>(n);
    float r = nf * -0.693359375F + c;
    r = nf * 2.12194440e-4F + r;
    float p = r * 2.762893412e-3F + 1.673756082e-2F;
    p = p * r + 8.333678842e-2F;
    p = p * r + 3.333304022e-1F;
    p = p * r + 9.999998683e-1F;
    p = p * r + 2.0F;
    p = p * r + 2.0F;
    y[i] = p * std::bit_cast<float>((static_cast<std::uint32_t>(n) + 126U) << 23);
  }
}

#elif KVPOP_VEHICLE == 2

#include <cstring>
#include <experimental/simd>

namespace stdx = std::experimental;
using vec = stdx::native_simd<float>;
using ivec = stdx::rebind_simd_t<std::int32_t, vec>;
using uvec = stdx::rebind_simd_t<std::uint32_t, vec>;
using hvec = stdx::rebind_simd_t<std::uint16_t, vec>;
constexpr int lanes = static_cast<int>(vec::size());

// The TS has no bit cast of a simd.
template <class To, class From>
static To bits(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

void stdx_logits(const float (*q)[dim], const std::uint16_t (*k)[dim], int rows, float* out) noexcept {
  for (int row = 0; row < rows; row += 2) {
    vec sum[2][queries] = {};
    for (int d = 0; d < dim; d += lanes) {
      vec x[2];
      KVPOP_BENCH_UNROLL
      for (int r = 0; r < 2; ++r) {
        const hvec h(&k[row + r][d], stdx::element_aligned);
        x[r] = bits<vec>(stdx::static_simd_cast<uvec>(h) << 16);
      }
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) {
        const vec y(&q[h][d], stdx::element_aligned);
        KVPOP_BENCH_UNROLL
        for (int r = 0; r < 2; ++r) sum[r][h] = stdx::fma(y, x[r], sum[r][h]);
      }
    }
    KVPOP_BENCH_UNROLL
    for (int r = 0; r < 2; ++r) {
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) out[h * rows + row + r] = stdx::reduce(sum[r][h]);
    }
  }
}

void stdx_exp(const float* x, float* y, int count) noexcept {
  for (int i = 0; i < count; i += lanes) {
    const vec c = stdx::clamp(vec(x + i, stdx::element_aligned), vec(-87.5F), vec(88.9F));
    const vec shifted = stdx::fma(c, vec(1.44269504F), vec(0x1.8p23F));
    const uvec n = bits<uvec>(shifted) - 0x4b400000U;
    const vec nf = stdx::static_simd_cast<vec>(bits<ivec>(n));
    vec r = stdx::fma(nf, vec(-0.693359375F), c);
    r = stdx::fma(nf, vec(2.12194440e-4F), r);
    vec p = stdx::fma(r, vec(2.762893412e-3F), vec(1.673756082e-2F));
    p = stdx::fma(p, r, vec(8.333678842e-2F));
    p = stdx::fma(p, r, vec(3.333304022e-1F));
    p = stdx::fma(p, r, vec(9.999998683e-1F));
    p = stdx::fma(p, r, vec(2.0F));
    p = stdx::fma(p, r, vec(2.0F));
    (p * bits<vec>((n + 126U) << 23)).copy_to(y + i, stdx::element_aligned);
  }
}

#elif KVPOP_VEHICLE == 3  // the library's own

#include "kvpop/core/math.hpp"
#include "kvpop/core/simd.hpp"

namespace simd = kvpop::simd;
constexpr int lanes = static_cast<int>(simd::lanes);

void vectors_logits(const float (*q)[dim], const std::uint16_t (*k)[dim], int rows, float* out) noexcept {
  for (int row = 0; row < rows; row += 2) {
    simd::vec sum[2][queries] = {};
    for (int d = 0; d < dim; d += lanes) {
      simd::vec x[2];
      KVPOP_BENCH_UNROLL
      for (int r = 0; r < 2; ++r) x[r] = simd::load(reinterpret_cast<const kvpop::bfloat16*>(&k[row + r][d]));
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) {
        const simd::vec y = simd::load(&q[h][d]);
        KVPOP_BENCH_UNROLL
        for (int r = 0; r < 2; ++r) sum[r][h] = simd::fma(y, x[r], sum[r][h]);
      }
    }
    KVPOP_BENCH_UNROLL
    for (int r = 0; r < 2; ++r) {
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) out[h * rows + row + r] = simd::reduce_add(sum[r][h]);
    }
  }
}

void vectors_exp(const float* x, float* y, int count) noexcept {
  for (int i = 0; i < count; i += lanes) simd::store(y + i, simd::exp(simd::load(x + i)));
}

#elif KVPOP_VEHICLE == 4  // AVX2 alone: each instruction set is a text of its own

#include <immintrin.h>

static float total(__m256 v) noexcept {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

void intrinsics_logits(const float (*q)[dim], const std::uint16_t (*k)[dim], int rows, float* out) noexcept {
  for (int row = 0; row < rows; row += 2) {
    __m256 sum[2][queries];
    KVPOP_BENCH_UNROLL
    for (int r = 0; r < 2; ++r) {
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) sum[r][h] = _mm256_setzero_ps();
    }
    for (int d = 0; d < dim; d += 8) {
      __m256 x[2];
      KVPOP_BENCH_UNROLL
      for (int r = 0; r < 2; ++r) {
        const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&k[row + r][d]));
        x[r] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
      }
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) {
        const __m256 y = _mm256_loadu_ps(&q[h][d]);
        KVPOP_BENCH_UNROLL
        for (int r = 0; r < 2; ++r) sum[r][h] = _mm256_fmadd_ps(y, x[r], sum[r][h]);
      }
    }
    KVPOP_BENCH_UNROLL
    for (int r = 0; r < 2; ++r) {
      KVPOP_BENCH_UNROLL
      for (int h = 0; h < queries; ++h) out[h * rows + row + r] = total(sum[r][h]);
    }
  }
}

void intrinsics_exp(const float* x, float* y, int count) noexcept {
  const auto all = [](float value) { return _mm256_set1_ps(value); };
  for (int i = 0; i < count; i += 8) {
    const __m256 c = _mm256_min_ps(all(88.9F), _mm256_max_ps(all(-87.5F), _mm256_loadu_ps(x + i)));
    const __m256 shifted = _mm256_fmadd_ps(c, all(1.44269504F), all(0x1.8p23F));
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(0x4b400000));
    const __m256 nf = _mm256_cvtepi32_ps(n);
    __m256 r = _mm256_fmadd_ps(nf, all(-0.693359375F), c);
    r = _mm256_fmadd_ps(nf, all(2.12194440e-4F), r);
    __m256 p = _mm256_fmadd_ps(r, all(2.762893412e-3F), all(1.673756082e-2F));
    p = _mm256_fmadd_ps(p, r, all(8.333678842e-2F));
    p = _mm256_fmadd_ps(p, r, all(3.333304022e-1F));
    p = _mm256_fmadd_ps(p, r, all(9.999998683e-1F));
    p = _mm256_fmadd_ps(p, r, all(2.0F));
    p = _mm256_fmadd_ps(p, r, all(2.0F));
    const __m256i exponent = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(126)), 23);
    _mm256_storeu_ps(y + i, _mm256_mul_ps(p, _mm256_castsi256_ps(exponent)));
  }
}

#else

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

// The thread's own clock: other work on the machine does not count.
static double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr int rows = 64;      // 16 KiB: what is measured is arithmetic, not memory
constexpr int count = 2048;   // floats
constexpr int repeats = 200;  // of a kernel, a turn
constexpr int turns = 400;

static float q[queries][dim];
static std::uint16_t k[rows][dim];
static float inputs[count];

struct vehicle {
  const char* name;
  void (*logits)(const float (*)[dim], const std::uint16_t (*)[dim], int, float*) noexcept;
  void (*exp)(const float*, float*, int) noexcept;
  double logits_seconds = 1e9;  // the best turn
  double exp_seconds = 1e9;

  void take_a_turn() {
    float out[queries * rows];
    double begin = now();
    for (int i = 0; i < repeats; ++i) logits(q, k, rows, out);
    logits_seconds = std::min(logits_seconds, now() - begin);
    float y[count];
    begin = now();
    for (int i = 0; i < repeats; ++i) exp(inputs, y, count);
    exp_seconds = std::min(exp_seconds, now() - begin);
  }

  void print() const {
    float out[queries * rows];
    float y[count];
    logits(q, k, rows, out);
    exp(inputs, y, count);
    double worst_logit = 0;
    double worst_exp = 0;
    for (int h = 0; h < queries; ++h) {
      for (int row = 0; row < rows; ++row) {
        double want = 0;
        for (int d = 0; d < dim; ++d) {
          const std::uint32_t bits = static_cast<std::uint32_t>(k[row][d]) << 16;
          float key = 0;
          std::memcpy(&key, &bits, sizeof(key));
          want += static_cast<double>(q[h][d]) * static_cast<double>(key);
        }
        worst_logit = std::fmax(worst_logit, std::fabs(static_cast<double>(out[h * rows + row]) - want));
      }
    }
    for (int i = 0; i < count; ++i) {
      const double want = std::exp(static_cast<double>(inputs[i]));
      worst_exp = std::fmax(worst_exp, std::fabs(static_cast<double>(y[i]) - want) / want);
    }
    std::printf("  %-12s logits %6.1f GFLOP/s (error %.0e)   exp %5.2f G/s (relative error %.0e)\n", name,
                2e-9 * queries * dim * rows * repeats / logits_seconds, worst_logit,
                1e-9 * count * repeats / exp_seconds, worst_exp);
  }
};

int main() {
  std::uint32_t state = 1;
  const auto uniform = [&] {
    return static_cast<float>((state = state * 1664525U + 1013904223U) >> 8) * 0x1p-23F - 1.0F;
  };
  for (auto& row : q) std::generate(row, row + dim, uniform);
  for (auto& row : k)
    std::generate(row, row + dim, [&] {
      return static_cast<std::uint16_t>(0x3f00U + (state = state * 1664525U + 1013904223U) % 256U);
    });
  std::generate(inputs, inputs + count, [&] { return 20.0F * uniform(); });
#define KVPOP_ENTRY(name) {#name, name##_logits, name##_exp},
  vehicle vehicles[] = {KVPOP_VEHICLES(KVPOP_ENTRY)};
  for (int turn = 0; turn < turns; ++turn) {
    for (vehicle& v : vehicles) v.take_a_turn();
  }
  for (const vehicle& v : vehicles) v.print();
}

#endif
