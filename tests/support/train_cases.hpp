#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvpop/core/workspace.hpp"  // carver
#include "support/generators.hpp"
#include "support/golden.hpp"

/// What the tests of training share.
namespace kvpop_test {

/// Memory for what `carve(carver&)` takes, and the result.
template <class Carve>
auto carved(std::vector<std::byte>& memory, const Carve& carve) {
  kvpop::carver count;
  static_cast<void>(carve(count));
  memory.resize(count.bytes() + 1);
  kvpop::carver real(kvpop::workspace{memory.data(), memory.size()}, "test");
  return carve(real);
}

/// `count` normal numbers times `scale`.
template <class T>
std::vector<T> normals(generator& random, std::int64_t count, double scale) {
  std::vector<T> x(static_cast<std::size_t>(count));
  for (T& value : x) value = static_cast<T>(scale * static_cast<double>(random.normal()));
  return x;
}

/// One head's parameters as one block, from golden tensors in the order given.
inline std::vector<double> golden_block(const std::string& prefix, const std::vector<std::string>& names,
                                        std::int64_t head) {
  std::vector<double> block;
  for (const std::string& name : names) {
    const auto t = golden::tensor<double>(prefix + name);
    const auto size = static_cast<std::int64_t>(t.values.size()) / t.shape[0];
    block.insert(block.end(), t.row(head), t.row(head) + size);
  }
  return block;
}

/// The largest |got - want| over the largest |want|.
template <class T>
double worst_of_largest(const std::vector<T>& got, const std::vector<double>& want) {
  double error = 0, largest = 1e-300;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error = std::fmax(error, std::fabs(static_cast<double>(got[i]) - want[i]));
    largest = std::fmax(largest, std::fabs(want[i]));
  }
  return error / largest;
}

}  // namespace kvpop_test
