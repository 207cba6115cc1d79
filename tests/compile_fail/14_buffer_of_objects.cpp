// expect: static(_assert| assertion) failed
#include <string>

#include "kvpop/core/buffer.hpp"

#ifdef KVPOP_FAIL
template class kvpop::buffer<std::string>;
#else
template class kvpop::buffer<float>;
#endif
