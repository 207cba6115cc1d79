#include "blas_kernel.hpp"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace qwen3 {

const char* blas_kernel() { return openblas_get_corename(); }

void restart_with_better_blas_kernel([[maybe_unused]] char** argv) {
#if defined(__x86_64__)
  constexpr const char* variable = "OPENBLAS_CORETYPE";  // set: somebody chose, or this is the second start
  if (std::getenv(variable) != nullptr || std::string_view(blas_kernel()) != "Prescott") return;
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx2) return;
  if (::setenv(variable, avx512 ? "SkylakeX" : "Haswell", 0) == 0) ::execv("/proc/self/exe", argv);
#endif
}

}  // namespace qwen3
