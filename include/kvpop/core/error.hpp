#pragma once

#include <string>

#include "kvpop/core/config.hpp"  // namespace, index_t

#if defined(__cpp_exceptions)
#include <stdexcept>
#else
#include <cstdio>
#include <cstdlib>
#endif

KVPOP_NAMESPACE_BEGIN

#if defined(__cpp_exceptions)
/// What every verb throws on bad input. The message names the argument, its value and the limit; whatever was passed
/// in is as it was before the call.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
#endif

/// Reports bad input: throws `error`, or, under -fno-exceptions, prints the message to stderr and aborts.
[[noreturn]] KVPOP_COLD inline void fail(const std::string& message) {
#if defined(__cpp_exceptions)
  throw error("kvpop: " + message);
#else
  std::fprintf(stderr, "kvpop: %s\n", message.c_str());
  std::abort();
#endif
}

/// The cold half of `expects`.
[[noreturn]] KVPOP_COLD inline void fail_value(const char* argument, index_t value, const char* limit) {
  fail(std::string(argument) + " is " + std::to_string(value) + "; it must be " + limit);
}

/// Checks a precondition on an integer argument: "kvpop: budget.window is 0; it must be at least 1".
inline void expects(bool ok, const char* argument, index_t value, const char* limit) {
  if (!ok) [[unlikely]] {
    fail_value(argument, value, limit);
  }
}

/// The cold half of `expects_equal`.
[[noreturn]] KVPOP_COLD inline void fail_unequal(const char* argument, index_t value, index_t expected,
                                                 const char* source) {
  fail(std::string(argument) + " is " + std::to_string(value) + "; " + source + " has " + std::to_string(expected));
}

/// Checks that two sizes agree: "kvpop: append: k.extent(head) is 4; the cache has 8".
inline void expects_equal(const char* argument, index_t value, index_t expected, const char* source) {
  if (value != expected) [[unlikely]] {
    fail_unequal(argument, value, expected, source);
  }
}

KVPOP_NAMESPACE_END
