#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kvpop/score/learned_scorer.hpp"    // scorer_kind, mlp_ref, mlstm_ref
#include "kvpop/score/safetensors_file.hpp"  // safetensors_file

KVPOP_NAMESPACE_BEGIN

/// A tensor that each layer of a scorer file has: `layers.<i>.<name>`.
struct scorer_tensor {
  const char* name;
  std::vector<index_t> shape;

  [[nodiscard]] index_t size() const noexcept {
    index_t product = 1;
    for (const index_t extent : shape) {
      product *= extent;
    }
    return product;
  }
};

/// The name of a layer's tensor in a scorer file.
[[nodiscard]] inline std::string layer_tensor_name(index_t layer, const char* name) {
  return "layers." + std::to_string(layer) + "." + name;
}

/// What a scorer file says about itself: its metadata, and the sizes of the scorer read off its tensors.
struct scorer_description {
  scorer_kind kind = scorer_kind::mlp;
  index_t layers = 0;
  scorer_input input;        ///< kv_heads, key_dim, value_dim of the model
  index_t window = 0;        ///< protected window in training
  index_t delay = 0;         ///< tokens between a token and the reading of its score; at most window
  index_t sinks = 0;         ///< sinks in training
  index_t trained_topk = 0;  ///< long-range places in training; 0 when the file does not say
  std::string target;        ///< reduction of the training target, as rms; empty when the file does not say
  index_t hidden = 0;        ///< MLP: hidden units
  index_t dk = 0;            ///< mLSTM: key dimension of the memory
  index_t dv = 0;            ///< mLSTM: value dimension of the memory
  bool has_decay = false;    ///< whether the file has g; without it gamma = 1

  /// Floats of memory per (sequence, kv head).
  [[nodiscard]] index_t memory_size() const noexcept { return kind == scorer_kind::mlp ? 0 : dv * dk + dk + 1; }

  /// The tensors of one layer with their shapes (docs/method.md section 4).
  [[nodiscard]] std::vector<scorer_tensor> tensors() const {
    const index_t h = input.kv_heads;
    const index_t x = input.size();
    std::vector<scorer_tensor> list;
    if (kind == scorer_kind::mlp) {
      list = {{"w1", {h, hidden, x}}, {"b1", {h, hidden}}, {"w2", {h, hidden}}, {"b2", {h}}};
    } else {
      list = {{"wk", {h, dk, x}}, {"wq", {h, dk, x}}, {"wv", {h, dv, x}}, {"wo", {h, dv, x}},
              {"wf", {h, x}},     {"wi", {h, x}},     {"a", {h, x}},      {"wout", {h, dv}},
              {"bf", {h}},        {"bi", {h}},        {"b", {h}}};
    }
    if (has_decay) {
      list.push_back({"g", {h}});
    }
    return list;
  }

  /// Parameters of all layers.
  [[nodiscard]] index_t parameters() const {
    index_t sum = 0;
    for (const scorer_tensor& tensor : tensors()) {
      sum += tensor.size();
    }
    return sum * layers;
  }
};

namespace scorer_files {

/// The metadata entry `key`.
inline const std::string& metadata(const safetensors_file& file, std::string_view key) {
  const auto found = file.header().metadata.find(key);
  if (found == file.header().metadata.end()) [[unlikely]] {
    fail(file.name() + ": metadata " + quoted(key) + " is missing: not a scorer file");
  }
  return found->second;
}

/// The metadata entry `key` as an integer in [least, most].
inline index_t metadata_integer(const safetensors_file& file, std::string_view key, index_t least, index_t most) {
  const std::string& text = metadata(file, key);
  index_t value = 0;
  bool valid = !text.empty() && text.size() <= 10;
  for (const char c : text) {
    valid = valid && c >= '0' && c <= '9';
    value = valid ? value * 10 + (c - '0') : 0;
  }
  if (!valid || value < least || value > most) [[unlikely]] {
    fail(file.name() + ": metadata " + quoted(key) + " is " + quoted(text) + "; it must be an integer in " +
         std::to_string(least) + " .. " + std::to_string(most));
  }
  return value;
}

/// The metadata entry `key`, which must be `value`.
inline void expect_metadata(const safetensors_file& file, std::string_view key, std::string_view value) {
  if (const std::string& text = metadata(file, key); text != value) [[unlikely]] {
    fail(file.name() + ": metadata " + quoted(key) + " is " + quoted(text) + "; it must be " + quoted(value));
  }
}

inline const safetensors_entry& entry(const safetensors_file& file, const std::string& name) {
  const auto found = file.header().tensors.find(name);
  if (found == file.header().tensors.end()) [[unlikely]] {
    fail(file.name() + ": tensor " + quoted(name) + " is missing");
  }
  return found->second;
}

/// The second axis of layer 0's tensor `name`, in [1, most]: a size that only the tensors state.
inline index_t second_axis(const safetensors_file& file, const char* name, index_t most) {
  const std::string full = layer_tensor_name(0, name);
  const safetensors_entry& e = entry(file, full);
  if (e.shape.size() != 3 || e.shape[1] < 1 || e.shape[1] > most) [[unlikely]] {
    fail(file.name() + ": tensor " + quoted(full) + ": its second of three axes must be in 1 .. " +
         std::to_string(most));
  }
  return e.shape[1];
}

inline std::string shape_text(const std::vector<index_t>& shape) {
  std::string text = "[";
  for (const index_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

/// Checks that the file has exactly the tensors that the description asks for.
inline void check_tensors(const safetensors_file& file, const scorer_description& d) {
  const std::vector<scorer_tensor> tensors = d.tensors();
  for (index_t i = 0; i < d.layers; ++i) {
    for (const scorer_tensor& tensor : tensors) {
      const std::string name = layer_tensor_name(i, tensor.name);
      const safetensors_entry& e = entry(file, name);
      if (e.dtype != "F32") [[unlikely]] {
        fail(file.name() + ": tensor " + quoted(name) + ": dtype is " + quoted(e.dtype) + "; it must be F32");
      }
      if (e.shape != tensor.shape) [[unlikely]] {
        fail(file.name() + ": tensor " + quoted(name) + ": shape is " + shape_text(e.shape) + "; it must be " +
             shape_text(tensor.shape));
      }
    }
  }
  const std::size_t expected = tensors.size() * static_cast<std::size_t>(d.layers);
  if (file.header().tensors.size() == expected) {
    return;
  }
  std::set<std::string, std::less<>> known;
  for (index_t i = 0; i < d.layers; ++i) {
    for (const scorer_tensor& tensor : tensors) {
      known.insert(layer_tensor_name(i, tensor.name));
    }
  }
  for (const auto& [name, e] : file.header().tensors) {
    if (!known.contains(name)) [[unlikely]] {
      fail(file.name() + ": tensor " + quoted(name) + " is not part of a scorer of kind " + name_of(d.kind));
    }
  }
}

}  // namespace scorer_files

/// Reads and validates what a file says about its scorer. Throws `error` naming the file and the entry or tensor.
[[nodiscard]] inline scorer_description describe_scorer(const safetensors_file& file) {
  using namespace scorer_files;  // NOLINT(google-build-using-namespace): helpers of this function
  constexpr index_t max_layers = 4096;
  constexpr index_t max_positions = (index_t{1} << 31) - 1;
  expect_metadata(file, "format", "kvpop.scorer");
  expect_metadata(file, "version", "1");
  scorer_description d;
  if (const std::string& kind = metadata(file, "kind"); kind == "mlp" || kind == "mlstm") {
    d.kind = kind == "mlp" ? scorer_kind::mlp : scorer_kind::mlstm;
  } else {
    fail(file.name() + ": metadata 'kind' is " + quoted(kind) + "; it must be 'mlp' or 'mlstm'");
  }
  d.layers = metadata_integer(file, "layers", 1, max_layers);
  d.input.kv_heads = metadata_integer(file, "kv_heads", 1, scorer_input::max_heads);
  d.input.key_dim = metadata_integer(file, "key_dim", 1, scorer_input::max_dim);
  d.input.value_dim = metadata_integer(file, "value_dim", 1, scorer_input::max_dim);
  d.window = metadata_integer(file, "window", 1, max_positions);
  d.delay = metadata_integer(file, "delay", 0, d.window);
  d.sinks = metadata_integer(file, "sinks", 0, max_positions);
  if (file.header().metadata.contains("trained_topk")) {
    d.trained_topk = metadata_integer(file, "trained_topk", 0, max_positions);
  }
  if (file.header().metadata.contains("target")) {
    d.target = metadata(file, "target");
  }
  if (d.kind == scorer_kind::mlp) {
    d.hidden = second_axis(file, "w1", mlp_ref::max_hidden);
  } else {
    d.dk = second_axis(file, "wk", mlstm_ref::max_state);
    d.dv = second_axis(file, "wv", mlstm_ref::max_state);
  }
  d.has_decay = file.header().tensors.contains(layer_tensor_name(0, "g"));
  check_tensors(file, d);
  return d;
}

KVPOP_NAMESPACE_END
