#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "kvpop/score/learned_scorer.hpp"    // scorer_kind, mlp_ref, mlstm_ref
#include "kvpop/score/safetensors_file.hpp"  // safetensors_file

KVPOP_NAMESPACE_BEGIN

/// A tensor that each layer of a scorer file has, `layers.<i>.<name>`: [kv_heads], [kv_heads, rows] or
/// [kv_heads, rows, columns]; an axis of 0 is not there.
struct scorer_tensor {
  const char* name = nullptr;
  index_t rows = 0;
  index_t columns = 0;

  /// Elements for each KV head.
  [[nodiscard]] constexpr index_t size() const noexcept {
    return (rows == 0 ? 1 : rows) * (columns == 0 ? 1 : columns);
  }
};

/// The tensors of one layer.
struct scorer_tensors {
  scorer_tensor list[12];
  index_t count = 0;

  [[nodiscard]] constexpr const scorer_tensor* begin() const noexcept { return list; }
  [[nodiscard]] constexpr const scorer_tensor* end() const noexcept { return list + count; }
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
  [[nodiscard]] scorer_tensors tensors() const noexcept {
    const index_t x = input.size();
    scorer_tensors all = kind == scorer_kind::mlp
                             ? scorer_tensors{{{"w1", hidden, x}, {"b1", hidden}, {"w2", hidden}, {"b2"}}, 4}
                             : scorer_tensors{{{"wk", dk, x},
                                               {"wq", dk, x},
                                               {"wv", dv, x},
                                               {"wo", dv, x},
                                               {"wf", x},
                                               {"wi", x},
                                               {"a", x},
                                               {"wout", dv},
                                               {"bf"},
                                               {"bi"},
                                               {"b"}},
                                              11};
    if (has_decay) {
      all.list[all.count++] = {"g"};
    }
    return all;
  }

  /// Parameters of all layers.
  [[nodiscard]] index_t parameters() const {
    index_t sum = 0;
    for (const scorer_tensor& tensor : tensors()) {
      sum += tensor.size();
    }
    return sum * input.kv_heads * layers;
  }
};

namespace scorer_files {

/// The metadata entry `key`.
inline const std::string& metadata(const safetensors_file& file, std::string_view key) {
  const auto found = file.header().metadata.find(key);
  if (found == file.header().metadata.end()) [[unlikely]] {
    fail(file.name() + ": metadata " + in_quotes(key) + " is missing: not a scorer file");
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
    fail(file.name() + ": metadata " + in_quotes(key) + " is " + in_quotes(text) + "; it must be an integer in " +
         std::to_string(least) + " .. " + std::to_string(most));
  }
  return value;
}

/// The metadata entry `key`, which must be `value`.
inline void expect_metadata(const safetensors_file& file, std::string_view key, std::string_view value) {
  if (const std::string& text = metadata(file, key); text != value) [[unlikely]] {
    fail(file.name() + ": metadata " + in_quotes(key) + " is " + in_quotes(text) + "; it must be " + in_quotes(value));
  }
}

inline const safetensors_entry& entry(const safetensors_file& file, const std::string& name) {
  const auto found = file.header().tensors.find(name);
  if (found == file.header().tensors.end()) [[unlikely]] {
    fail(file.name() + ": tensor " + in_quotes(name) + " is missing");
  }
  return found->second;
}

/// The second axis of layer 0's tensor `name`, in [1, most]: a size that only the tensors state.
inline index_t second_axis(const safetensors_file& file, const char* name, index_t most) {
  const std::string full = layer_tensor_name(0, name);
  const safetensors_entry& e = entry(file, full);
  if (e.shape.size() != 3 || e.shape[1] < 1 || e.shape[1] > most) [[unlikely]] {
    fail(file.name() + ": tensor " + in_quotes(full) + ": its second of three axes must be in 1 .. " +
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

/// Checks one tensor's dtype and shape.
inline void check_tensor(const safetensors_file& file, const std::string& name, const scorer_description& d,
                         const scorer_tensor& tensor) {
  const safetensors_entry& e = entry(file, name);
  if (e.dtype != "F32") [[unlikely]] {
    fail(file.name() + ": tensor " + in_quotes(name) + ": dtype is " + in_quotes(e.dtype) + "; it must be F32");
  }
  std::vector<index_t> shape(1, d.input.kv_heads);
  for (const index_t extent : {tensor.rows, tensor.columns}) {
    if (extent != 0) {
      shape.push_back(extent);
    }
  }
  if (e.shape != shape) [[unlikely]] {
    fail(file.name() + ": tensor " + in_quotes(name) + ": shape is " + shape_text(e.shape) + "; it must be " +
         shape_text(shape));
  }
}

/// Whether `name` is layers.<i>.<tensor> for a layer and a tensor of the scorer.
inline bool is_known(std::string_view name, const scorer_description& d) noexcept {
  constexpr std::string_view prefix = "layers.";
  const std::size_t dot = name.find('.', prefix.size());
  if (name.substr(0, prefix.size()) != prefix || dot == std::string_view::npos) {
    return false;
  }
  const std::string_view digits = name.substr(prefix.size(), dot - prefix.size());
  index_t layer = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9' || layer >= d.layers) {
      return false;
    }
    layer = layer * 10 + (c - '0');
  }
  const bool canonical = !digits.empty() && (digits.front() != '0' || digits.size() == 1);
  bool known = false;
  for (const scorer_tensor& tensor : d.tensors()) {
    known = known || name.substr(dot + 1) == tensor.name;
  }
  return known && canonical && layer < d.layers;
}

/// Checks that the file has exactly the tensors that the description asks for.
inline void check_tensors(const safetensors_file& file, const scorer_description& d) {
  for (index_t i = 0; i < d.layers; ++i) {
    for (const scorer_tensor& tensor : d.tensors()) {
      check_tensor(file, layer_tensor_name(i, tensor.name), d, tensor);
    }
  }
  for (const auto& [name, e] : file.header().tensors) {
    if (!is_known(name, d)) [[unlikely]] {
      fail(file.name() + ": tensor " + in_quotes(name) + " is not part of a scorer of kind " + name_of(d.kind));
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
    fail(file.name() + ": metadata 'kind' is " + in_quotes(kind) + "; it must be 'mlp' or 'mlstm'");
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
