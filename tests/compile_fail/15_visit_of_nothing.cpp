// expect: no matching function for call to .visit|static(_assert| assertion) failed
#include "kvpop/core/visit.hpp"

void run(kvpop::index_t dim) {
#ifdef KVPOP_FAIL
  kvpop::visit<>(dim, [](auto) {});
#else
  kvpop::visit<64>(dim, [](auto) {});
#endif
}
