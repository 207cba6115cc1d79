// expect: no matching function for call to .prefill
#include "kvpop/attention/prefill.hpp"
#include "kvpop/score/recency.hpp"

using host = kvpop::chunk_view<const float>;
using out = kvpop::chunk_view<float>;
using device = kvpop::chunk_view<float, kvpop::device_memory>;

void run(const kvpop::budgeted_cache_ref<float, 64>& cache, const host& x, const out& y, const device& z) {
  kvpop::prefill(kvpop::host_context(), cache, kvpop::recency{}, x, x, x, y, {}, {});
#ifdef KVPOP_FAIL
  kvpop::prefill(kvpop::host_context(), cache, kvpop::recency{}, x, x, x, z, {}, {});
#else
  static_cast<void>(z);
#endif
}
