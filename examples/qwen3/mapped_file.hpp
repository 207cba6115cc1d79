#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace qwen3 {

/// A regular file, mapped read-only. Move-only; the bytes stay where they are when the object moves.
///
/// Costs address space, not memory: pages come from the file when they are read. The file must not be shortened while
/// it is mapped (the system would end the process with SIGBUS).
class mapped_file {
 public:
  /// Maps `path`. Throws load_error when it is missing, a directory, not a regular file or not readable.
  static mapped_file open(const std::string& path);

  mapped_file() = default;
  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace qwen3
