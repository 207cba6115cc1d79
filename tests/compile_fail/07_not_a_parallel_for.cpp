// expect: no matching (function for call to|conversion)|no matching constructor
#include "kvpop/core/context.hpp"

struct parallel {
  template <class F>
  void operator()(kvpop::index_t tasks, const F& f) const {
    for (kvpop::index_t i = 0; i < tasks; ++i) f(i);
  }
};
struct other {
  void operator()(kvpop::index_t) const {}
};

void run() {
  const parallel good;
  static_cast<void>(kvpop::host_context(good, 2));
#ifdef KVPOP_FAIL
  const other bad;
  static_cast<void>(kvpop::host_context(bad, 2));
#endif
}
