#pragma once

#include "kvpop/core/config.hpp"  // namespace

KVPOP_NAMESPACE_BEGIN

/// Memory that the host can read and write. Part of a view's type: views of different spaces do not convert.
struct host_memory {};

/// Memory that only a CUDA device can read and write. Passing it to a host verb does not compile, and the reverse.
struct device_memory {};

KVPOP_NAMESPACE_END
