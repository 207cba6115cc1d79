#include <cuda_runtime_api.h>

#include <cstdio>

#include "kvpop/kvpop.hpp"  // the host library is read by nvcc too

int main() {
  kvpop::budgeted_cache<float, 64> cache({.sequences = 1, .kv_heads = 2}, {.sinks = 1, .window = 2, .topk = 3});
  int version = 0;
  const cudaError_t status = cudaRuntimeGetVersion(&version);
  std::printf("CUDA runtime %d, %lld slots\n", version, static_cast<long long>(cache.ref().capacity()));
  return status == cudaSuccess && cache.ref().capacity() == 6 ? 0 : 1;
}
