#pragma once

namespace qwen3 {

/// The kernel that OpenBLAS chose for this CPU: `SkylakeX`, `Haswell`, ...
const char* blas_kernel();

/// Call first in main. OpenBLAS takes a CPU that is newer than itself for the oldest it knows (`Prescott`) and then
/// multiplies at a quarter of the speed. It decides when it is loaded, so the one remedy is to name the kernel in the
/// environment and start the program again: done when the CPU has AVX2 or AVX-512, and OPENBLAS_CORETYPE is not set.
/// Returns when there is nothing to do or the second start is not possible.
void restart_with_better_blas_kernel(char** argv);

}  // namespace qwen3
