#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mapped_file.hpp"  // mapped_file
#include "output_file.hpp"  // output_file

namespace qwen3 {

/// Bytes of one element of a dtype by the name the format gives it (`F32`, `BF16`, `I64`, ...); 0 when it is not known.
std::size_t dtype_bytes(std::string_view dtype);

/// `[256, 48]`
std::string shape_text(std::span<const std::int64_t> shape);

/// One tensor of a mapped file. `data` lives as long as the safetensors_file that holds it.
struct tensor_view {
  std::string name;
  std::string dtype;                // as the file spells it; one that is not known is kept and refused when used
  std::vector<std::int64_t> shape;  // outermost first, contiguous; empty for a single number
  const std::byte* data = nullptr;  // little endian; aligned as the file has it, which may be not at all
  std::size_t bytes = 0;

  /// The elements in place, for T = float (F32), std::int32_t (I32) or std::int64_t (I64).
  /// Throws load_error when the dtype is another one or the data is not aligned for T.
  template <class T>
  std::span<const T> values() const;
};

/// A safetensors file, mapped and checked: afterwards every tensor lies within the file and has the size of its shape.
///
/// Strict: the header must be at most 100,000,000 bytes and an object without repeated names; every tensor has exactly
/// dtype, shape (at most 8 dimensions) and data_offsets; sizes are checked for overflow; tensors neither overlap nor
/// leave holes, and end where the file ends, as the format demands. Allocates for the names and shapes that the header
/// holds, never for sizes that it claims.
class safetensors_file {
 public:
  /// Throws load_error naming the file, the tensor and what is wrong with it.
  static safetensors_file open(const std::string& path);

  /// The tensor, or nullptr. O(log tensors).
  const tensor_view* find(std::string_view name) const;

  /// The tensor; throws load_error naming the file when it is missing.
  const tensor_view& at(std::string_view name) const;

  /// All tensors in order of their names.
  std::span<const tensor_view> tensors() const { return tensors_; }

  /// The strings of `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  const std::string& path() const { return file_.path(); }

 private:
  mapped_file file_;
  std::vector<tensor_view> tensors_;  // by name
  std::map<std::string, std::string> metadata_;
};

/// What a tensor to be written looks like.
struct tensor_shape {
  std::string name;
  std::string dtype;  // F32, I32 or I64
  std::vector<std::int64_t> shape;
};

/// Writes a safetensors file piece by piece, so that logits need not be held whole.
///
/// The header goes out first; then `append` brings the tensors' data in the order given (wider dtypes first keep every
/// tensor aligned); `finish` puts the file in place. Until then the target is untouched, and an object that goes away
/// earlier leaves nothing behind. Every step throws load_error with the path and the reason (see output_file).
class safetensors_writer {
 public:
  safetensors_writer(const std::string& path, std::span<const tensor_shape> tensors,
                     const std::map<std::string, std::string>& metadata = {});

  void append(const void* data, std::size_t bytes);

  template <class T>
  void append(std::span<const T> values) {
    append(values.data(), values.size_bytes());
  }

  /// Precondition: all bytes of all tensors were appended.
  void finish();

 private:
  output_file file_;
  std::size_t left_ = 0;  // bytes still to come
};

}  // namespace qwen3
