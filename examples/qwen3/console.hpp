#pragma once

#include <string>
#include <string_view>

namespace qwen3 {

/// Writes to stdout at once. Throws load_error when that fails (a full disk, a closed pipe).
void print(std::string_view text);

/// A line on stderr, with the program's name before it.
void note(const std::string& message);

/// All of stdin.
std::string read_stdin();

}  // namespace qwen3
