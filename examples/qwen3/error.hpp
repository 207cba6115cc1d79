#pragma once

#include <stdexcept>

namespace qwen3 {

/// A file, or what is in it, cannot be used. The message names the file, what is wrong and the limit. Exit status 1.
struct load_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The command line, or a value given by the person who runs the engine, cannot be used. Exit status 2.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace qwen3
