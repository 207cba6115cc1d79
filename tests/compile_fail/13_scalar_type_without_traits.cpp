// expect: scalar_traits
#include "kvpop/cache/append.hpp"
#include "kvpop/score/recency.hpp"

#ifdef KVPOP_FAIL
using input = short;
#else
using input = kvpop::float16;
#endif

void run(const kvpop::budgeted_cache_ref<float, 64>& cache, const kvpop::step_view<const input>& x) {
  kvpop::append(kvpop::host_context(), cache, kvpop::recency{}, x, x);
}
