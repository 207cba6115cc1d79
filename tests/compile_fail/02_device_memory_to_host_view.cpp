// expect: no matching (function for call to|conversion)|no matching constructor
#include "kvpop/core/view.hpp"

void run(kvpop::step_view<float> host, kvpop::step_view<float, kvpop::device_memory> device) {
  kvpop::step_view<const float> x = host;
#ifdef KVPOP_FAIL
  x = kvpop::step_view<const float>(device);
#endif
  static_cast<void>(x);
  static_cast<void>(device);
}
