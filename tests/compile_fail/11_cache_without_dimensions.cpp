// expect: static(_assert| assertion) failed
#include "kvpop/cache/cache_ref.hpp"

#ifdef KVPOP_FAIL
constexpr kvpop::index_t dim = 0;
#else
constexpr kvpop::index_t dim = 1;
#endif
template class kvpop::budgeted_cache_ref<float, 1, dim>;
