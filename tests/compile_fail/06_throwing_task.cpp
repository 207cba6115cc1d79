// expect: tasks of a verb must be noexcept
#include "kvpop/core/context.hpp"

void run() {
  kvpop::host_context().parallel_for(3, [](kvpop::index_t) noexcept {});
#ifdef KVPOP_FAIL
  kvpop::host_context().parallel_for(3, [](kvpop::index_t) {});
#endif
}
