#include "config.hpp"

#include <sys/stat.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "error.hpp"      // load_error, in_quotes
#include "json_file.hpp"  // read_json_file, shown

namespace qwen3 {

namespace {

using nlohmann::json;

constexpr std::size_t longest_file = 16'000'000;

// Limits: some ten times what the largest known model has, and small enough that products stay in 64 bits.
constexpr std::int64_t most_hidden = 1 << 18;
constexpr std::int64_t most_intermediate = 1 << 21;
constexpr std::int64_t most_layers = 1 << 11;
constexpr std::int64_t most_heads = 1 << 11;
constexpr std::int64_t most_head_dim = 1 << 11;
constexpr std::int64_t most_vocabulary = 1 << 24;
constexpr std::int64_t most_positions = std::int64_t{1} << 31;
constexpr std::int64_t most_token_id = (std::int64_t{1} << 31) - 1;

// A number as a person would write it: 1e-06, 0.5, 131072.
std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.12g", value);
  return text.data();
}

// The members of one object of a file, with its place in it for messages. A member that is null counts as missing.
class fields {
 public:
  fields(const json& object, std::string file, std::string prefix = "")
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {}

  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const json& at(const char* name) const {
    const json* value = find(name);
    if (value == nullptr) throw load_error(file_ + ": " + prefix_ + name + " is missing");
    return *value;
  }
  [[noreturn]] void refuse(const char* name, const json& value, const std::string& limit) const {
    throw load_error(file_ + ": " + prefix_ + name + " is " + shown(value) + "; it must be " + limit);
  }
  [[noreturn]] void unknown(const char* name, const json& value, const std::string& known) const {
    throw load_error(file_ + ": " + prefix_ + name + " is " + shown(value) +
                     ", which this engine does not know; it knows " + known);
  }

  std::int64_t integer(const char* name, const json& value, std::int64_t low, std::int64_t high) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
    if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
      refuse(name, value, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    return value.get<std::int64_t>();
  }
  std::int64_t integer(const char* name, std::int64_t low, std::int64_t high) const {
    return integer(name, at(name), low, high);
  }
  std::int64_t integer_or(const char* name, std::int64_t low, std::int64_t high, std::int64_t missing) const {
    return find(name) == nullptr ? missing : integer(name, low, high);
  }
  double number(const char* name, double low, double high) const {
    const json& value = at(name);
    const bool inside = value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
    if (!inside) refuse(name, value, "a number from " + number_text(low) + " to " + number_text(high));
    return value.get<double>();
  }
  bool boolean_or(const char* name, bool missing) const {
    const json* value = find(name);
    if (value == nullptr) return missing;
    if (!value->is_boolean()) refuse(name, *value, "true or false");
    return value->get<bool>();
  }
  fields object(const char* name) const {
    const json& value = at(name);
    if (!value.is_object()) refuse(name, value, "an object");
    return {value, file_, prefix_ + name + "."};
  }
  const std::string& file() const { return file_; }

 private:
  const json& object_;
  std::string file_;
  std::string prefix_;  // `rope_scaling.`
};

struct family_entry {
  architecture family;
  std::string_view model_type;
  std::string_view class_name;
};
constexpr family_entry families[] = {{architecture::qwen3, "qwen3", "Qwen3ForCausalLM"},
                                     {architecture::llama, "llama", "LlamaForCausalLM"},
                                     {architecture::qwen2, "qwen2", "Qwen2ForCausalLM"}};

architecture read_family(const fields& config) {
  const json& type = config.at("model_type");
  const family_entry* found = nullptr;
  for (const family_entry& one : families) {
    if (type == one.model_type) found = &one;
  }
  if (found == nullptr) config.unknown("model_type", type, "qwen3, llama and qwen2");
  if (const json* classes = config.find("architectures")) {
    if (!classes->is_array() || classes->size() != 1 || (*classes)[0] != found->class_name)
      config.unknown("architectures", *classes, "[\"" + std::string(found->class_name) + "\"] for this model_type");
  }
  return found->family;
}

// What other models of these families may have and this engine does not compute.
void refuse_what_is_not_computed(const fields& config, architecture family) {
  if (const json* value = config.find("hidden_act"); value != nullptr && *value != "silu")
    config.unknown("hidden_act", *value, "\"silu\"");
  if (const json* value = config.find("quantization_config")) {
    const bool named = value->is_object() && value->contains("quant_method");
    config.unknown(named ? "quantization_config.quant_method" : "quantization_config",
                   named ? (*value)["quant_method"] : *value, "weights that are not quantised: F32, BF16 and F16");
  }
  if (config.boolean_or("use_sliding_window", false))
    config.unknown("use_sliding_window", json(true), "full attention (use_sliding_window false)");
  if (const json* types = config.find("layer_types")) {
    if (!types->is_array()) config.refuse("layer_types", *types, "a list");
    for (const json& type : *types) {
      if (type != "full_attention") config.unknown("layer_types", type, "\"full_attention\"");
    }
  }
  if (const json* part = config.find("partial_rotary_factor"); part != nullptr && *part != 1)
    config.unknown("partial_rotary_factor", *part, "1: every dimension of a head is rotated");
  if (family != architecture::llama && config.boolean_or("mlp_bias", false))
    config.unknown("mlp_bias", json(true), "false for this model_type");
  if (const json* window = config.find("sliding_window"); window != nullptr && family == architecture::llama)
    config.unknown("sliding_window", *window, "full attention (null) for this model_type");
  for (const char* name :
       {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "logits_scaling", "attention_multiplier",
        "embedding_multiplier", "residual_multiplier", "no_rope_layers", "compression_config"}) {
    if (const json* value = config.find(name)) config.unknown(name, *value, "models without it (null)");
  }
}

std::optional<llama3_scaling> read_scaling(const fields& scaling, std::int64_t max_positions) {
  const json* old = scaling.find("type");  // the name before transformers 4.43
  const char* key = old != nullptr && scaling.find("rope_type") == nullptr ? "type" : "rope_type";
  const json& type = scaling.at(key);
  if (old != nullptr && *old != type) scaling.refuse("type", *old, "what rope_type is, " + shown(type));
  if (type == "default") return std::nullopt;
  if (type != "llama3") scaling.unknown(key, type, "\"default\" and \"llama3\"");
  llama3_scaling result{};
  result.factor = scaling.number("factor", 1, 1e6);
  result.low_freq_factor = scaling.number("low_freq_factor", 1e-3, 1e6);
  result.high_freq_factor = scaling.number("high_freq_factor", 1e-3, 1e6);
  result.original_positions = scaling.integer("original_max_position_embeddings", 1, max_positions);
  if (result.high_freq_factor <= result.low_freq_factor)
    scaling.refuse("high_freq_factor", scaling.at("high_freq_factor"),
                   "larger than low_freq_factor (" + number_text(result.low_freq_factor) + ")");
  return result;
}

void read_rope(const fields& config, model_config& result) {
  constexpr double least_theta = 1, most_theta = 1e15;
  // transformers 5 keeps both in rope_parameters; before, rope_theta stood beside rope_scaling.
  if (config.find("rope_parameters") != nullptr && config.find("rope_scaling") != nullptr)
    config.unknown("rope_scaling", config.at("rope_scaling"), "one of rope_parameters and rope_scaling, not both");
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (config.find(name) == nullptr) continue;
    const fields rope = config.object(name);
    result.rope_scaling = read_scaling(rope, result.max_positions);
    if (rope.find("rope_theta") != nullptr) result.rope_theta = rope.number("rope_theta", least_theta, most_theta);
    break;
  }
  if (result.rope_theta != 0) return;
  constexpr double llama_default = 10000;  // the first Llamas do not write it
  const bool absent = config.find("rope_theta") == nullptr && result.family == architecture::llama;
  result.rope_theta = absent ? llama_default : config.number("rope_theta", least_theta, most_theta);
}

void read_shape(const fields& config, model_config& result) {
  result.hidden = config.integer("hidden_size", 1, most_hidden);
  result.intermediate = config.integer("intermediate_size", 1, most_intermediate);
  result.layers = config.integer("num_hidden_layers", 1, most_layers);
  result.query_heads = config.integer("num_attention_heads", 1, most_heads);
  result.kv_heads = result.family == architecture::llama
                        ? config.integer_or("num_key_value_heads", 1, most_heads, result.query_heads)
                        : config.integer("num_key_value_heads", 1, most_heads);
  if (result.query_heads % result.kv_heads != 0)
    config.refuse("num_attention_heads", config.at("num_attention_heads"),
                  "a multiple of num_key_value_heads (" + std::to_string(result.kv_heads) + ")");
  constexpr std::int64_t qwen3_default = 128;  // transformers' default for this family, whatever the hidden size
  if (config.find("head_dim") != nullptr) {
    result.head_dim = config.integer("head_dim", 2, most_head_dim);
  } else if (result.family == architecture::qwen3) {
    result.head_dim = qwen3_default;
  } else {
    if (result.hidden % result.query_heads != 0)
      config.refuse(
          "hidden_size", config.at("hidden_size"),
          "a multiple of num_attention_heads (" + std::to_string(result.query_heads) + ") where head_dim is not given");
    result.head_dim = result.hidden / result.query_heads;
  }
  if (result.head_dim % 2 != 0)
    throw load_error(config.file() + ": head_dim is " + std::to_string(result.head_dim) +
                     "; it must be even: positions rotate pairs");
  result.vocabulary = config.integer("vocab_size", 1, most_vocabulary);
  result.max_positions = config.integer("max_position_embeddings", 1, most_positions);
}

void read_switches(const fields& config, model_config& result) {
  constexpr double least_eps = 1e-12, most_eps = 1;
  result.rms_norm_eps = config.number("rms_norm_eps", least_eps, most_eps);
  result.tied_embeddings = config.boolean_or("tie_word_embeddings", false);
  result.qk_norm = result.family == architecture::qwen3;
  const bool attention_bias = config.boolean_or("attention_bias", false);
  const bool qwen2 = result.family == architecture::qwen2;  // q, k and v have biases always, o never
  result.qkv_bias = qwen2 || attention_bias;
  result.output_bias = !qwen2 && attention_bias;
  result.mlp_bias = config.boolean_or("mlp_bias", false);
}

// One id or a list of them. Ids past the vocabulary are kept: they are never met.
std::vector<std::int64_t> read_token_ids(const fields& config, const char* name) {
  const json* value = config.find(name);
  std::vector<std::int64_t> result;
  if (value == nullptr) return result;
  if (!value->is_array()) return {config.integer(name, *value, 0, most_token_id)};
  for (const json& id : *value) result.push_back(config.integer(name, id, 0, most_token_id));
  return result;
}

void read_generation(const fields& config, model_config& result) {
  if (auto ids = read_token_ids(config, "eos_token_id"); !ids.empty()) result.eos_tokens = std::move(ids);
  if (const auto ids = read_token_ids(config, "bos_token_id"); !ids.empty()) result.bos_token = ids.front();
  generation_defaults& defaults = result.generation;
  if (config.find("do_sample") != nullptr) defaults.do_sample = config.boolean_or("do_sample", false);
  if (config.find("temperature") != nullptr) defaults.temperature = config.number("temperature", 0, 1000);
  if (config.find("top_p") != nullptr) defaults.top_p = config.number("top_p", 0, 1);
  if (config.find("top_k") != nullptr) defaults.top_k = config.integer("top_k", 0, most_vocabulary);
}

}  // namespace

const char* name_of(architecture family) {
  return family == architecture::qwen3 ? "Qwen3" : family == architecture::llama ? "Llama" : "Qwen2";
}

model_config load_config(const std::string& directory) {
  const std::string path = directory + "/config.json";
  const json document = read_json_file(path, longest_file);
  const fields config(document, path);
  model_config result;
  result.family = read_family(config);
  refuse_what_is_not_computed(config, result.family);
  read_shape(config, result);
  read_switches(config, result);
  read_rope(config, result);
  result.eos_tokens = read_token_ids(config, "eos_token_id");
  if (const auto ids = read_token_ids(config, "bos_token_id"); !ids.empty()) result.bos_token = ids.front();

  const std::string generation_path = directory + "/generation_config.json";
  struct stat status {};
  if (::stat(generation_path.c_str(), &status) == 0) {
    const json generation = read_json_file(generation_path, longest_file);
    read_generation(fields(generation, generation_path), result);
  }
  return result;
}

}  // namespace qwen3
