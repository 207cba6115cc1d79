// expect: no matching (member )?function for call to .*row
#include "kvpop/core/view.hpp"

float* run(const kvpop::step_view<float>& x) {
#ifdef KVPOP_FAIL
  return x.row(0, 1, 2);
#else
  return x.row(0, 1);
#endif
}
