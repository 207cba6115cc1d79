#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Golden data: tests/data/golden/method.safetensors, what the double-precision reference computes (docs/method.md).
///
/// An independent reader that shares no code with the library. Anything missing or of the wrong type throws.
namespace golden {

/// A tensor as the file holds it: row-major values and their shape.
template <class T>
struct tensor_data {
  std::vector<std::int64_t> shape;
  std::vector<T> values;

  /// Where index i of the first axis begins.
  [[nodiscard]] const T* row(std::int64_t i) const {
    std::int64_t stride = 1;
    for (std::size_t a = 1; a < shape.size(); ++a) {
      stride *= shape[a];
    }
    return values.data() + i * stride;
  }
  /// The values rounded to float.
  [[nodiscard]] std::vector<float> as_float() const { return std::vector<float>(values.begin(), values.end()); }
};

/// One safetensors file in memory.
class file {
 public:
  explicit file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
      throw std::runtime_error("golden: cannot open " + path);
    }
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), 8);
    header_ = nlohmann::json::parse(bytes_.begin() + 8, bytes_.begin() + 8 + static_cast<std::ptrdiff_t>(length));
    data_ = 8 + static_cast<std::size_t>(length);
  }

  /// The tensor `name`; T is double, float or int32_t as the file has it.
  template <class T>
  [[nodiscard]] tensor_data<T> tensor(const std::string& name) const {
    static_assert(std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, std::int32_t>);
    const nlohmann::json& entry = header_.at(name);
    const std::string dtype = std::is_same_v<T, double> ? "F64" : std::is_same_v<T, float> ? "F32" : "I32";
    if (entry.at("dtype") != dtype) {
      throw std::runtime_error("golden: " + name + " is " + entry.at("dtype").get<std::string>() + ", not " + dtype);
    }
    const auto begin = entry.at("data_offsets").at(0).get<std::size_t>();
    const auto end = entry.at("data_offsets").at(1).get<std::size_t>();
    tensor_data<T> t;
    t.shape = entry.at("shape").get<std::vector<std::int64_t>>();
    t.values.resize((end - begin) / sizeof(T));
    std::memcpy(t.values.data(), bytes_.data() + data_ + begin, end - begin);
    return t;
  }

  [[nodiscard]] bool has(const std::string& name) const { return header_.contains(name); }

  /// The metadata entry `params`, parsed: `params()["chain_mlp"]["topk"]`.
  [[nodiscard]] nlohmann::json params() const {
    return nlohmann::json::parse(header_.at("__metadata__").at("params").get<std::string>());
  }

 private:
  std::vector<char> bytes_;
  nlohmann::json header_;
  std::size_t data_ = 0;
};

/// method.safetensors, read once.
inline const file& method() {
  static const file f(std::string(KVPOP_TEST_DATA) + "/golden/method.safetensors");
  return f;
}

/// A tensor of method.safetensors: `golden::tensor<double>("mlp.r")`.
template <class T>
tensor_data<T> tensor(const std::string& name) {
  return method().tensor<T>(name);
}

/// The parameters of method.safetensors.
inline nlohmann::json params() { return method().params(); }

}  // namespace golden
