// expect: no matching function for call to .append
#include "kvpop/cache/append.hpp"
#include "kvpop/score/recency.hpp"

using ref = kvpop::budgeted_cache_ref<float, 64>;
using host = kvpop::step_view<const float>;
using device = kvpop::step_view<const float, kvpop::device_memory>;

void run(const ref& cache, const host& k, const host& v, const device& on_device) {
  kvpop::append(kvpop::host_context(), cache, kvpop::recency{}, k, v);
#ifdef KVPOP_FAIL
  kvpop::append(kvpop::host_context(), cache, kvpop::recency{}, k, on_device);
#else
  static_cast<void>(on_device);
#endif
}
