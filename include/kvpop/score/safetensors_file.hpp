#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "kvpop/core/buffer.hpp"               // buffer
#include "kvpop/score/safetensors_header.hpp"  // safetensors_header

KVPOP_NAMESPACE_BEGIN

/// A safetensors file in memory: its validated header and its tensors' bytes. Move-only.
///
/// What the file claims is believed only as far as bytes of it have arrived: memory grows with what was read.
class safetensors_file {
 public:
  /// Reads a file. Throws `error` when it cannot be read or is not exactly a safetensors file.
  [[nodiscard]] static safetensors_file read(const char* path) {
    const stream in(path);
    return load(path, [&in](std::byte* out, index_t count) { return in.read(out, count); });
  }

  /// Copies a file that is in memory already; `name` is how messages call it.
  [[nodiscard]] static safetensors_file copy(const std::byte* bytes, std::size_t size, const std::string& name) {
    std::size_t at = 0;
    return load(name, [&](std::byte* out, index_t count) {
      const std::size_t left = size - at;
      const std::size_t n = static_cast<std::size_t>(count) < left ? static_cast<std::size_t>(count) : left;
      if (n > 0) {
        std::memcpy(out, bytes + at, n);
      }
      at += n;
      return static_cast<index_t>(n);
    });
  }

  /// How messages call the file: its path.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const safetensors_header& header() const noexcept { return header_; }
  /// header().data_bytes bytes, 64-byte aligned.
  [[nodiscard]] const std::byte* data() const noexcept { return data_.data(); }

 private:
  /// A C stream that closes itself.
  class stream {
   public:
    explicit stream(const char* path) : path_(path), file_(std::fopen(path, "rb")) {
      if (file_ == nullptr) [[unlikely]] {
        fail(std::string(path) + ": " + std::strerror(errno));
      }
    }
    stream(const stream&) = delete;
    stream& operator=(const stream&) = delete;
    ~stream() { static_cast<void>(std::fclose(file_)); }

    /// Up to `count` bytes; fewer only at the end of the file.
    [[nodiscard]] index_t read(std::byte* out, index_t count) const {
      errno = 0;
      const std::size_t n = std::fread(out, 1, static_cast<std::size_t>(count), file_);
      if (std::ferror(file_) != 0) [[unlikely]] {
        fail(std::string(path_) + ": " + std::strerror(errno));  // a directory arrives here
      }
      return static_cast<index_t>(n);
    }

   private:
    const char* path_;
    std::FILE* file_;
  };

  /// Bytes read so far of a part that claims to have `claimed`: never allocates more than twice what has arrived.
  template <class Read>
  static std::pair<buffer<std::byte>, index_t> read_part(Read& read, index_t claimed) {
    constexpr index_t first = index_t{1} << 20;
    index_t capacity = claimed < first ? claimed : first;
    buffer<std::byte> bytes(capacity);
    index_t have = read(bytes.data(), capacity);
    while (have == capacity && capacity < claimed) {
      const index_t larger = claimed - capacity < capacity ? claimed : 2 * capacity;
      buffer<std::byte> grown(larger);
      std::memcpy(grown.data(), bytes.data(), static_cast<std::size_t>(have));
      bytes = std::move(grown);
      have += read(bytes.data() + have, larger - capacity);
      capacity = larger;
    }
    return {std::move(bytes), have};
  }

  template <class Read>
  static safetensors_file load(const std::string& name, Read read) {
    safetensors_file file;
    file.name_ = name;
    std::byte prefix[8];
    if (const index_t have = read(prefix, 8); have != 8) [[unlikely]] {
      fail(name + ": the file has " + std::to_string(have) + " bytes; a safetensors file begins with 8 of length");
    }
    const index_t length = header_length(name, prefix);
    const auto [text, text_bytes] = read_part(read, length);
    if (text_bytes != length) [[unlikely]] {
      fail(name + ": the header's length is " + std::to_string(length) + "; only " + std::to_string(text_bytes) +
           " bytes follow");
    }
    file.header_ = parse_safetensors_header(
        std::string_view(reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(length)), name);
    auto [data, data_bytes] = read_part(read, file.header_.data_bytes);
    if (data_bytes != file.header_.data_bytes) [[unlikely]] {
      fail(name + ": the tensors need " + std::to_string(file.header_.data_bytes) + " bytes; only " +
           std::to_string(data_bytes) + " follow the header");
    }
    std::byte extra;
    if (read(&extra, 1) != 0) [[unlikely]] {
      fail(name + ": bytes follow the last tensor");
    }
    file.data_ = std::move(data);
    return file;
  }

  /// The little-endian length in the first eight bytes.
  static index_t header_length(const std::string& name, const std::byte* prefix) {
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) {
      length = (length << 8U) | std::to_integer<std::uint64_t>(prefix[i]);
    }
    if (length < 2 || length > static_cast<std::uint64_t>(safetensors_max_header)) [[unlikely]] {
      fail(name + ": the header's length is " + std::to_string(length) + "; it must be in 2 .. " +
           std::to_string(safetensors_max_header));
    }
    return static_cast<index_t>(length);
  }

  safetensors_file() = default;

  std::string name_;
  safetensors_header header_;
  buffer<std::byte> data_;
};

KVPOP_NAMESPACE_END
