// expect: no matching function for call to .append
#include "kvpop/cache/append.hpp"
#include "kvpop/score/recency.hpp"

void run(const kvpop::budgeted_cache_ref<float, 64>& cache, const kvpop::step_view<const float>& k,
         const kvpop::step_view<const kvpop::bfloat16>& v) {
  kvpop::append(kvpop::host_context(), cache, kvpop::recency{}, k, k);
#ifdef KVPOP_FAIL
  kvpop::append(kvpop::host_context(), cache, kvpop::recency{}, k, v);
#else
  static_cast<void>(v);
#endif
}
