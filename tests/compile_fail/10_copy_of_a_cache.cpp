// expect: deleted
#include <utility>

#include "kvpop/cache/cache.hpp"

using cache = kvpop::budgeted_cache<float, 64>;

void run(cache& x) {
#ifdef KVPOP_FAIL
  cache y = x;
#else
  cache y = std::move(x);
#endif
  static_cast<void>(y.ref());
}
