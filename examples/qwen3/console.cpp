#include "console.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "error.hpp"  // load_error

namespace qwen3 {

void print(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) throw load_error(std::string("cannot write to standard output: ") + std::strerror(errno));
}

void note(const std::string& message) { std::fprintf(stderr, "qwen3: %s\n", message.c_str()); }

std::string read_stdin() {
  std::string text;
  std::array<char, 1 << 16> block{};
  while (const std::size_t n = std::fread(block.data(), 1, block.size(), stdin)) text.append(block.data(), n);
  if (std::ferror(stdin) != 0) throw load_error(std::string("cannot read standard input: ") + std::strerror(errno));
  return text;
}

}  // namespace qwen3
