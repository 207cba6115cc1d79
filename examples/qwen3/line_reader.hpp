#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mapped_file.hpp"  // mapped_file

namespace qwen3 {

/// The lines of a file, one after another, with their numbers: what JSON Lines are read through.
class line_reader {
 public:
  /// Throws load_error when the file cannot be read.
  explicit line_reader(const std::string& path) : file_(mapped_file::open(path)), rest_(file_.text()) {}

  /// Goes on to the next line; false after the last. A line feed at the end of the file begins no line.
  bool next();

  /// The line without its line feed, valid while the reader lives.
  std::string_view line() const { return line_; }
  bool blank() const { return line_.find_first_not_of(" \t\r") == std::string_view::npos; }
  std::size_t number() const { return number_; }
  /// `path:number`, for messages.
  std::string place() const { return file_.path() + ":" + std::to_string(number_); }

 private:
  mapped_file file_;
  std::string_view rest_, line_;
  std::size_t number_ = 0;
};

}  // namespace qwen3
