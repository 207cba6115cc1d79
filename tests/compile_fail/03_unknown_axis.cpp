// expect: this view has no such axis
#include "kvpop/core/view.hpp"

kvpop::index_t run(const kvpop::step_view<float>& x) {
#ifdef KVPOP_FAIL
  return x.extent<kvpop::axis::token>();
#else
  return x.extent<kvpop::axis::head>();
#endif
}
