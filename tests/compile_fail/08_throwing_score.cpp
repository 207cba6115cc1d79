// expect: no matching function for call to .append
#include "kvpop/cache/append.hpp"

struct steady {
  float score(kvpop::index_t, kvpop::index_t, const float*, const float*) const noexcept { return 0; }
};
struct may_throw {
  float score(kvpop::index_t, kvpop::index_t, const float*, const float*) const { return 0; }
};

void run(const kvpop::budgeted_cache_ref<float, 64>& cache, const kvpop::step_view<const float>& x) {
  kvpop::append(kvpop::host_context(), cache, steady{}, x, x);
#ifdef KVPOP_FAIL
  kvpop::append(kvpop::host_context(), cache, may_throw{}, x, x);
#endif
}
