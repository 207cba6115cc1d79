#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "safetensors.hpp"    // safetensors_file, tensor_view
#include "weight_matrix.hpp"  // weight_matrix

namespace qwen3 {

/// The weights of a Hugging Face directory: `model.safetensors`, or the shards that `model.safetensors.index.json` lists.
///
/// Everything stays mapped; matrices are read in place (only a tensor that its file does not align is copied). An index
/// may name files of the directory alone: a path, or a link that leads elsewhere, is refused, except into the `blobs`
/// folder of the hub's own cache, where every file is a link. Tensors that the index does not list are not seen.
class weights {
 public:
  /// Throws load_error naming the file and what is wrong: a shard or tensor that is missing, a tensor in two shards, ...
  static weights open(const std::string& directory);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

  /// A matrix [out, in] of F32, BF16 or F16, in place. Lives as long as this object.
  /// Throws load_error naming the tensor, its shape or dtype and what was expected.
  weight_matrix matrix(std::string_view name, std::int64_t out, std::int64_t in) const;

  /// A vector [length] (norms, biases), converted to f32.
  std::vector<float> vector(std::string_view name, std::int64_t length) const;

  /// All tensors by name.
  const std::map<std::string, tensor_view, std::less<>>& tensors() const { return tensors_; }

 private:
  void add(const tensor_view& tensor);
  void open_shards(const std::string& index_path);
  const tensor_view& checked(std::string_view name, std::span<const std::int64_t> shape) const;

  std::string directory_;
  std::vector<safetensors_file> files_;
  std::vector<std::vector<std::byte>> copies_;  // of tensors that are not aligned in their file
  std::map<std::string, tensor_view, std::less<>> tensors_;
};

}  // namespace qwen3
