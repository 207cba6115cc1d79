#pragma once

#include "kvpop/core/view.hpp"  // view

KVPOP_NAMESPACE_BEGIN

/// One number a token, a row for each KV head (of one sequence or of many, one after another): [heads, tokens].
template <class T, class Memory = host_memory>
using row_view = view<T, Memory, axis::head, axis::token>;

KVPOP_NAMESPACE_END
