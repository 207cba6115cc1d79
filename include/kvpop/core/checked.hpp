#pragma once

#include "kvpop/core/error.hpp"  // fail

KVPOP_NAMESPACE_BEGIN

/// a + b for non-negative sizes; an error that names `what` when the sum does not fit 63 bits.
inline index_t checked_add(index_t a, index_t b, const char* what) {
  index_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) [[unlikely]] {
    fail(std::string(what) + ": " + std::to_string(a) + " + " + std::to_string(b) + " does not fit 63 bits");
  }
  return sum;
}

/// a * b for non-negative sizes; an error that names `what` when the product does not fit 63 bits.
inline index_t checked_multiply(index_t a, index_t b, const char* what) {
  index_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) [[unlikely]] {
    fail(std::string(what) + ": " + std::to_string(a) + " * " + std::to_string(b) + " does not fit 63 bits");
  }
  return product;
}

KVPOP_NAMESPACE_END
