#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "files.hpp"  // temporary_directory, read_file, write_file

namespace qwen3_test {

struct program_result {
  int status = -1;
  std::string out;
  std::string err;
};

/// `text` as one word of a shell.
inline std::string shell_word(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// Runs the engine's binary with arguments as a shell reads them.
inline program_result run_qwen3(const std::string& arguments, const std::string& input = "") {
  const temporary_directory directory;
  write_file(directory / "in", input);
  const std::string command = shell_word(KVPOP_QWEN3_BINARY) + " " + arguments + " <" + shell_word(directory / "in") +
                              " >" + shell_word(directory / "out") + " 2>" + shell_word(directory / "err");
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(directory / "out"), read_file(directory / "err")};
}

}  // namespace qwen3_test
