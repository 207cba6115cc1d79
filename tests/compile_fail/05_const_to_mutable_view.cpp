// expect: no matching (function for call to|conversion)|no matching constructor
#include "kvpop/core/view.hpp"

kvpop::step_view<float> run(const kvpop::step_view<float>& x, const kvpop::step_view<const float>& constant) {
#ifdef KVPOP_FAIL
  return kvpop::step_view<float>(constant);
#else
  static_cast<void>(constant);
  return kvpop::step_view<float>(x);
#endif
}
