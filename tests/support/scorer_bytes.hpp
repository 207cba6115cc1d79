#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <stdlib.h>  // mkstemp

#include "support/generators.hpp"

/// Safetensors files made by hand, right or wrong, for the tests of their readers. Shares no code with the library.
namespace kvpop_test {

using bytes = std::vector<std::byte>;

/// A header's length, its text and the data, as a file has them.
inline bytes file_bytes(const std::string& header, const std::string& data) {
  bytes file(8 + header.size() + data.size());
  for (std::size_t i = 0; i < 8; ++i) {
    file[i] = static_cast<std::byte>((static_cast<std::uint64_t>(header.size()) >> (8 * i)) & 0xffU);
  }
  std::memcpy(file.data() + 8, header.data(), header.size());
  if (!data.empty()) {
    std::memcpy(file.data() + 8 + header.size(), data.data(), data.size());
  }
  return file;
}

/// A tensor to be written.
struct written_tensor {
  std::string dtype = "F32";
  std::vector<std::int64_t> shape;
  std::string data;
};

/// A scorer file in parts: change one, then write it.
struct written_scorer {
  std::map<std::string, std::string> metadata;
  std::map<std::string, written_tensor> tensors;

  /// Random parameters for all layers. kind: mlp (with `a` hidden units) or mlstm (with dk = a, dv = b).
  static written_scorer make(const std::string& kind, int layers, int kv_heads, int key_dim, int value_dim, int a,
                             int b) {
    written_scorer file;
    file.metadata = {{"format", "kvpop.scorer"},
                     {"version", "1"},
                     {"kind", kind},
                     {"layers", std::to_string(layers)},
                     {"kv_heads", std::to_string(kv_heads)},
                     {"key_dim", std::to_string(key_dim)},
                     {"value_dim", std::to_string(value_dim)},
                     {"window", "8"},
                     {"delay", kind == "mlp" ? "0" : "8"},
                     {"sinks", "4"},
                     {"target", "rms"},
                     {"trained_topk", "28"}};
    const std::int64_t h = kv_heads;
    const std::int64_t x = key_dim + value_dim;
    const std::map<std::string, std::vector<std::int64_t>> mlp = {
        {"w1", {h, a, x}}, {"b1", {h, a}}, {"w2", {h, a}}, {"b2", {h}}, {"g", {h}}};
    const std::map<std::string, std::vector<std::int64_t>> mlstm = {
        {"wk", {h, a, x}}, {"wq", {h, a, x}}, {"wv", {h, b, x}}, {"wo", {h, b, x}}, {"wf", {h, x}}, {"wi", {h, x}},
        {"a", {h, x}},     {"wout", {h, b}},  {"bf", {h}},       {"bi", {h}},       {"b", {h}},     {"g", {h}}};
    generator random(320);
    for (int layer = 0; layer < layers; ++layer) {
      for (const auto& [name, shape] : kind == "mlp" ? mlp : mlstm) {
        written_tensor tensor{"F32", shape, ""};
        std::int64_t count = 1;
        for (const std::int64_t extent : shape) {
          count *= extent;
        }
        for (std::int64_t i = 0; i < count; ++i) {
          const float value = random.normal();
          tensor.data.append(reinterpret_cast<const char*>(&value), sizeof(value));
        }
        file.tensors["layers." + std::to_string(layer) + "." + name] = tensor;
      }
    }
    return file;
  }

  [[nodiscard]] std::string header() const {
    std::string text = "{\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      text += (text.back() == '{' ? "\"" : ",\"") + key + "\":\"" + value + "\"";
    }
    text += "}";
    std::size_t at = 0;
    for (const auto& [name, tensor] : tensors) {
      text += ",\"" + name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
      for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
        text += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
      }
      text += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + tensor.data.size()) + "]}";
      at += tensor.data.size();
    }
    return text + "}";
  }

  [[nodiscard]] std::string data() const {
    std::string all;
    for (const auto& [name, tensor] : tensors) {
      all += tensor.data;
    }
    return all;
  }

  [[nodiscard]] bytes write() const { return file_bytes(header(), data()); }
};

/// A file that is there as long as the object.
class temporary_file {
 public:
  explicit temporary_file(const bytes& content) {
    char name[] = "/tmp/kvpop_test_XXXXXX";
    const int descriptor = mkstemp(name);
    path_ = name;
    std::FILE* file = fdopen(descriptor, "wb");
    std::fwrite(content.data(), 1, content.size(), file);
    std::fclose(file);
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() { std::remove(path_.c_str()); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kvpop_test
