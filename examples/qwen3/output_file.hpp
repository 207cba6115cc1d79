#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qwen3 {

/// Writes a file so that it is there whole or not at all.
///
/// Bytes go to a new file beside the target, which `commit` renames over it; without `commit` that file is removed and
/// the target stays as it was. A target that is a device or a pipe (/dev/stdout) is written directly. Every write and
/// the close are checked; nothing is forced to the disk (no fsync). Throws load_error with the path and the reason.
class output_file {
 public:
  explicit output_file(std::string path);
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;
  ~output_file();

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  void commit();

  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void fail(const char* action) const;
  void open_beside(unsigned mode);

  std::string path_;       // as given, for messages
  std::string target_;     // links resolved
  std::string temporary_;  // empty when the target is written directly
  int descriptor_ = -1;
};

/// Throws load_error when nothing could be written there, before long work is done for it. What is there stays as it is; a
/// device or a pipe is not opened. An empty path, which asks for no file, passes.
void check_writable(const std::string& path);

}  // namespace qwen3
