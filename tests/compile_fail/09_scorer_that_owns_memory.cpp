// expect: no matching function for call to .append
#include <vector>

#include "kvpop/cache/append.hpp"

struct refers {
  const std::vector<float>* w;
  float score(kvpop::index_t, kvpop::index_t, const float*, const float*) const noexcept { return (*w)[0]; }
};
struct owns {
  std::vector<float> w;
  float score(kvpop::index_t, kvpop::index_t, const float*, const float*) const noexcept { return w[0]; }
};

void run(const kvpop::budgeted_cache_ref<float, 64>& cache, const kvpop::step_view<const float>& x) {
  const owns owner{{1.0F}};
  kvpop::append(kvpop::host_context(), cache, refers{&owner.w}, x, x);
#ifdef KVPOP_FAIL
  kvpop::append(kvpop::host_context(), cache, owner, x, x);
#endif
}
