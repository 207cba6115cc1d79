#include "qwen3/config.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files.hpp"        // temporary_directory, message_of
#include "qwen3/error.hpp"  // load_error

namespace {

using namespace qwen3_test;
using nlohmann::json;
using qwen3::architecture;
using qwen3::load_config;
using qwen3::load_error;
using qwen3::model_config;

const json& valid() {
  static const json config = {{"model_type", "qwen3"},
                              {"architectures", {"Qwen3ForCausalLM"}},
                              {"hidden_size", 48},
                              {"intermediate_size", 80},
                              {"num_hidden_layers", 3},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"head_dim", 64},
                              {"hidden_act", "silu"},
                              {"rms_norm_eps", 1e-6},
                              {"rope_theta", 1000000.0},
                              {"vocab_size", 211},
                              {"max_position_embeddings", 512},
                              {"tie_word_embeddings", true}};
  return config;
}

model_config load(const json& config, const json& generation = nullptr) {
  const temporary_directory directory;
  write_file(directory / "config.json", config.dump());
  if (!generation.is_null()) write_file(directory / "generation_config.json", generation.dump());
  return load_config(directory.path());
}

// What loading this says, after the path.
std::string refusal(const json& config, const json& generation = nullptr) {
  const std::string message = message_of<load_error>([&] { load(config, generation); });
  const auto file = message.find(".json: ");
  return file == std::string::npos ? message : message.substr(file + 7);
}

json with(const char* name, const json& value) {
  json config = valid();
  config[name] = value;
  return config;
}

json without(const char* name) {
  json config = valid();
  config.erase(name);
  return config;
}

json llama(const char* name = "hidden_act", const json& value = "silu") {
  json config = with("model_type", "llama");
  config["architectures"] = {"LlamaForCausalLM"};
  config[name] = value;
  return config;
}

}  // namespace

TEST_CASE("the golden checkpoints' configs") {
  const std::string checkpoints = KVPOP_TEST_DATA "/checkpoints/";
  const auto qwen = load_config(checkpoints + "qwen3_mqa_bf16_sharded");
  CHECK(qwen.family == architecture::qwen3);
  CHECK(qwen.hidden == 48);
  CHECK(qwen.intermediate == 80);
  CHECK(qwen.layers == 3);
  CHECK(qwen.query_heads == 4);
  CHECK(qwen.kv_heads == 1);
  CHECK(qwen.head_dim == 64);
  CHECK(qwen.query_width() == 256);
  CHECK(qwen.kv_width() == 64);
  CHECK(qwen.vocabulary == 211);
  CHECK(qwen.max_positions == 512);
  CHECK(qwen.rms_norm_eps == 1e-6);
  CHECK(qwen.rope_theta == 1e6);
  CHECK_FALSE(qwen.tied_embeddings);
  CHECK(qwen.qk_norm);
  CHECK_FALSE(qwen.qkv_bias);
  CHECK_FALSE(qwen.bos_token.has_value());
  CHECK(qwen.eos_tokens.empty());
  CHECK(load_config(checkpoints + "qwen3_gqa_f16").tied_embeddings);
  CHECK(load_config(checkpoints + "qwen3_mha_f32_tied").head_dim == 128);
  const auto llama_config = load_config(checkpoints + "llama_gqa_f32");
  CHECK(llama_config.family == architecture::llama);
  CHECK_FALSE(llama_config.qk_norm);
  CHECK_FALSE(llama_config.qkv_bias);
  CHECK(llama_config.bos_token == 1);
  CHECK(llama_config.eos_tokens == std::vector<std::int64_t>{2});
  const auto qwen2 = load_config(checkpoints + "qwen2_gqa_bf16");
  CHECK(qwen2.family == architecture::qwen2);
  CHECK(qwen2.head_dim == 16);
  CHECK(qwen2.qkv_bias);
  CHECK_FALSE(qwen2.output_bias);
  CHECK_FALSE(qwen2.qk_norm);
}

TEST_CASE("the embedded model's config and its generation defaults") {
  const auto notebook = load_config(KVPOP_MODELS "/notebook");
  CHECK(notebook.vocabulary == 768);
  CHECK(notebook.bos_token == 758);
  CHECK(notebook.eos_tokens == std::vector<std::int64_t>{760});
}

TEST_CASE("fields that must be there are named when they are not") {
  for (const char* name :
       {"model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_theta"}) {
    CHECK(refusal(without(name)) == std::string(name) + " is missing");
    CHECK(refusal(with(name, nullptr)) == std::string(name) + " is missing");
  }
}

TEST_CASE("fields that transformers fills are filled as it does") {
  CHECK(load(without("architectures")).hidden == 48);
  CHECK(load(without("hidden_act")).hidden == 48);
  CHECK_FALSE(load(without("tie_word_embeddings")).tied_embeddings);
  CHECK(load(without("head_dim")).head_dim == 128);  // Qwen3
  json other = llama();
  for (const char* name : {"head_dim", "num_key_value_heads", "rope_theta"}) other.erase(name);
  const auto config = load(other);
  CHECK(config.head_dim == 12);
  CHECK(config.kv_heads == 4);
  CHECK(config.rope_theta == 10000);
}

TEST_CASE("counts that are zero, negative, fractions, text or absurd") {
  struct field {
    const char* name;
    const char* low;
    const char* high;
    std::int64_t too_large;
  };
  const field fields[] = {
      {"hidden_size", "1", "262144", 262145},     {"intermediate_size", "1", "2097152", 2097153},
      {"num_hidden_layers", "1", "2048", 2049},   {"num_attention_heads", "1", "2048", 2049},
      {"num_key_value_heads", "1", "2048", 2049}, {"head_dim", "2", "2048", 2049},
      {"vocab_size", "1", "16777216", 16777217},  {"max_position_embeddings", "1", "2147483648", 2147483649}};
  for (const field& one : fields) {
    const auto message = [&](const std::string& value) {
      return std::string(one.name) + " is " + value + "; it must be a whole number from " + one.low + " to " + one.high;
    };
    CHECK(refusal(with(one.name, 0)) == message("0"));
    CHECK(refusal(with(one.name, -8)) == message("-8"));
    CHECK(refusal(with(one.name, 48.5)) == message("48.5"));
    CHECK(refusal(with(one.name, 48.0)) == message("48.0"));
    CHECK(refusal(with(one.name, "48")) == message("\"48\""));
    CHECK(refusal(with(one.name, true)) == message("true"));
    CHECK(refusal(with(one.name, json::array({48}))) == message("[48]"));
    CHECK(refusal(with(one.name, one.too_large)) == message(std::to_string(one.too_large)));
    CHECK(refusal(with(one.name, UINT64_MAX)) == message("18446744073709551615"));
    CHECK(refusal(with(one.name, 1e300)) == message("1e+300"));
  }
  CHECK(refusal(with("hidden_size", std::string(1000, 'x'))) ==
        "hidden_size is \"" + std::string(59, 'x') + "...; it must be a whole number from 1 to 262144");
}

TEST_CASE("numbers out of range and switches that are none") {
  CHECK(refusal(with("rms_norm_eps", 0)) == "rms_norm_eps is 0; it must be a number from 1e-12 to 1");
  CHECK(refusal(with("rms_norm_eps", -1e-6)) == "rms_norm_eps is -1e-06; it must be a number from 1e-12 to 1");
  CHECK(refusal(with("rms_norm_eps", "1e-6")) == "rms_norm_eps is \"1e-6\"; it must be a number from 1e-12 to 1");
  CHECK(refusal(with("rope_theta", 0)) == "rope_theta is 0; it must be a number from 1 to 1e+15");
  CHECK(refusal(with("rope_theta", 1e16)) == "rope_theta is 1e+16; it must be a number from 1 to 1e+15");
  CHECK(refusal(with("tie_word_embeddings", 1)) == "tie_word_embeddings is 1; it must be true or false");
  CHECK(refusal(with("eos_token_id", -1)) == "eos_token_id is -1; it must be a whole number from 0 to 2147483647");
  CHECK(refusal(with("eos_token_id", {5, "x"})) ==
        "eos_token_id is \"x\"; it must be a whole number from 0 to 2147483647");
}

TEST_CASE("shapes that do not divide") {
  CHECK(refusal(with("num_key_value_heads", 3)) ==
        "num_attention_heads is 4; it must be a multiple of num_key_value_heads (3)");
  CHECK(refusal(with("num_key_value_heads", 8)) ==
        "num_attention_heads is 4; it must be a multiple of num_key_value_heads (8)");
  json config = llama("hidden_size", 50);
  config.erase("head_dim");
  CHECK(refusal(config) ==
        "hidden_size is 50; it must be a multiple of num_attention_heads (4) where head_dim is not given");
  config["hidden_size"] = 36;
  CHECK(refusal(config) == "head_dim is 9; it must be even: positions rotate pairs");
  CHECK(refusal(with("head_dim", 63)) == "head_dim is 63; it must be even: positions rotate pairs");
}

TEST_CASE("what is not computed is refused by name") {
  CHECK(refusal(with("model_type", "qwen3_moe")) ==
        "model_type is \"qwen3_moe\", which this engine does not know; it knows qwen3, llama and qwen2");
  CHECK(refusal(with("model_type", 3)) ==
        "model_type is 3, which this engine does not know; it knows qwen3, llama and qwen2");
  CHECK(refusal(with("architectures", {"Qwen3ForSequenceClassification"})) ==
        "architectures is [\"Qwen3ForSequenceClassification\"], which this engine does not know; it knows "
        "[\"Qwen3ForCausalLM\"] for this model_type");
  CHECK(refusal(with("hidden_act", "gelu")) ==
        "hidden_act is \"gelu\", which this engine does not know; it knows \"silu\"");
  CHECK(refusal(with("quantization_config", {{"quant_method", "gptq"}, {"bits", 4}})) ==
        "quantization_config.quant_method is \"gptq\", which this engine does not know; it knows weights that are not "
        "quantised: F32, BF16 and F16");
  CHECK(refusal(with("quantization_config", {{"bits", 4}})) ==
        "quantization_config is {\"bits\":4}, which this engine does not know; it knows weights that are not "
        "quantised: F32, BF16 and F16");
  CHECK(refusal(with("use_sliding_window", true)) ==
        "use_sliding_window is true, which this engine does not know; it knows full attention (use_sliding_window "
        "false)");
  CHECK(refusal(with("layer_types", {"full_attention", "sliding_attention"})) ==
        "layer_types is \"sliding_attention\", which this engine does not know; it knows \"full_attention\"");
  CHECK(refusal(with("partial_rotary_factor", 0.5)) ==
        "partial_rotary_factor is 0.5, which this engine does not know; it knows 1: every dimension of a head is "
        "rotated");
  CHECK(refusal(with("mlp_bias", true)) ==
        "mlp_bias is true, which this engine does not know; it knows false for this model_type");
  CHECK(load(with("sliding_window", 4096)).hidden == 48);  // without use_sliding_window it has no effect
}

TEST_CASE("biases of each family") {
  const auto qwen = load(with("attention_bias", true));
  CHECK(qwen.qkv_bias);
  CHECK(qwen.output_bias);
  const auto biased = load(llama("mlp_bias", true));
  CHECK(biased.mlp_bias);
  CHECK_FALSE(biased.qkv_bias);
}

TEST_CASE("what other models add to the same layers is refused by name") {
  CHECK(refusal(llama("sliding_window", 4096)).find("sliding_window is 4096, which this engine does not know") == 0);
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping", "logit_scale", "logits_scaling",
                           "attention_multiplier", "embedding_multiplier", "residual_multiplier"}) {
    CHECK(refusal(with(name, 30.0)) == std::string(name) +
                                           " is 30.0, which this engine does not know; it knows models without it "
                                           "(null)");
    CHECK(load(with(name, nullptr)).hidden == 48);
  }
  CHECK(refusal(with("no_rope_layers", {1, 0})).find("no_rope_layers is [1,0]") == 0);
  CHECK(refusal(with("compression_config", {{"bits", 4}})).find("compression_config is {\"bits\":4}") == 0);
}

TEST_CASE("rope scaling") {
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 128}};
  CHECK_FALSE(load(with("rope_scaling", nullptr)).rope_scaling.has_value());
  CHECK_FALSE(load(with("rope_scaling", {{"rope_type", "default"}})).rope_scaling.has_value());
  const auto config = load(llama("rope_scaling", llama3));
  REQUIRE(config.rope_scaling.has_value());
  CHECK(config.rope_scaling->factor == 8);
  CHECK(config.rope_scaling->original_positions == 128);
  CHECK(refusal(with("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}})) ==
        "rope_scaling.rope_type is \"yarn\", which this engine does not know; it knows \"default\" and \"llama3\"");
  CHECK(refusal(with("rope_scaling", {{"factor", 2.0}})) == "rope_scaling.rope_type is missing");
  CHECK(refusal(with("rope_scaling", {{"type", "linear"}, {"rope_type", "default"}})) ==
        "rope_scaling.type is \"linear\"; it must be what rope_type is, \"default\"");
  json twice = with("rope_scaling", {{"rope_type", "default"}});
  twice["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  CHECK(refusal(twice).find("it knows one of rope_parameters and rope_scaling, not both") != std::string::npos);
  CHECK(refusal(with("rope_scaling", {{"type", "linear"}, {"factor", 2.0}})) ==
        "rope_scaling.type is \"linear\", which this engine does not know; it knows \"default\" and \"llama3\"");
  CHECK(refusal(with("rope_scaling", 4)) == "rope_scaling is 4; it must be an object");
  json incomplete = llama3;
  incomplete.erase("factor");
  CHECK(refusal(with("rope_scaling", incomplete)) == "rope_scaling.factor is missing");
  json reversed = llama3;
  reversed["high_freq_factor"] = 1.0;
  CHECK(refusal(with("rope_scaling", reversed)) ==
        "rope_scaling.high_freq_factor is 1.0; it must be larger than low_freq_factor (1)");
  // As transformers 5 writes it.
  json later = without("rope_theta");
  later["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5000.0}};
  CHECK(load(later).rope_theta == 5000);
  later["rope_parameters"] = {{"rope_type", "default"}};
  CHECK(refusal(later) == "rope_theta is missing");
}

TEST_CASE("generation_config.json replaces stop tokens and proposes sampling") {
  const json generation = {{"eos_token_id", {7, 8}}, {"bos_token_id", 1}, {"do_sample", true},
                           {"temperature", 0.6},     {"top_p", 0.95},     {"top_k", 20}};
  const auto config = load(with("eos_token_id", 5), generation);
  CHECK(config.eos_tokens == std::vector<std::int64_t>{7, 8});
  CHECK(config.bos_token == 1);
  CHECK(config.generation.do_sample == true);
  CHECK(config.generation.temperature == 0.6);
  CHECK(config.generation.top_p == 0.95);
  CHECK(config.generation.top_k == 20);
  CHECK(load(with("eos_token_id", 5), json::object()).eos_tokens == std::vector<std::int64_t>{5});
  CHECK(refusal(valid(), {{"temperature", -1}}) == "temperature is -1; it must be a number from 0 to 1000");
  CHECK(refusal(valid(), {{"top_p", 1.5}}) == "top_p is 1.5; it must be a number from 0 to 1");
  CHECK(refusal(valid(), json::array()) == "is not a JSON object but array");
}

TEST_CASE("config files that are none") {
  const temporary_directory directory;
  const std::string path = directory / "config.json";
  const auto message = [&] { return message_of<load_error>([&] { load_config(directory.path()); }); };
  CHECK(message() == path + ": cannot open: No such file or directory");
  write_file(path, "");
  CHECK(message() == path + ": is empty; a JSON object is needed");
  write_file(path, R"({"hidden_size": 1, "hidden_size": 2})");
  CHECK(message() == path + ": names \"hidden_size\" twice in one object");
  write_file(path, std::string("{}\0{", 4));
  CHECK(message() == path + ": holds a NUL byte at byte 2");
  write_file(path, "{\"model_type\": \"\xc3(\"}");
  CHECK(message().starts_with(path + ": is not valid JSON: parse error at line 1, column 18"));
  write_file(path, std::string(16'000'001, ' '));
  CHECK(message() == path + ": is 16000001 bytes long; at most 16000000 are read");
  const std::string whole = valid().dump();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    write_file(path, whole.substr(0, size));
    CHECK(message().starts_with(path + ": is not valid JSON: parse error at line 1, column "));
  }
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(message() == path + ": is a directory; a file is needed");
}
