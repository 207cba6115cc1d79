#include "qwen3/model.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "files.hpp"        // message_of
#include "qwen3/error.hpp"  // usage_error
#include "run_support.hpp"  // all_logits, relative_error

namespace {

using namespace qwen3_test;
using qwen3::model;

const std::string checkpoints = KVPOP_TEST_DATA "/checkpoints/";
const std::vector<std::string> golden{"qwen3_mqa_bf16_sharded", "qwen3_mha_f32_tied", "qwen3_gqa_f16", "llama_gqa_f32",
                                      "qwen2_gqa_bf16"};
// The checkpoints' numbers come from float64, the engine computes in f32.
constexpr double tolerance = 2e-4;

// Their script casts the whole model with `model.to(dtype)`, which rounds the RoPE frequencies too (data/README.md).
qwen3::weight_type cast_to(const std::string& name) {
  if (name.find("bf16") != std::string::npos) return qwen3::weight_type::bf16;
  return name.find("f16") != std::string::npos ? qwen3::weight_type::f16 : qwen3::weight_type::f32;
}

std::unique_ptr<qwen3::kv_cache> full_cache(const model& network, std::int64_t tokens,
                                            qwen3::cache_dtype dtype = qwen3::cache_dtype::f32) {
  return qwen3::make_kv_cache(network.config(), {}, {.plan = keep_all(tokens), .dtype = dtype});
}

std::span<const std::int32_t> input_of(const qwen3::safetensors_file& expected) {
  return expected.at("input_ids").values<std::int32_t>();
}

}  // namespace

TEST_CASE("logits, keys and values are transformers', in chunks of any size") {
  for (const std::string& name : golden) {
    const model network = model::open(checkpoints + name, cast_to(name));
    const auto expected = qwen3::safetensors_file::open(checkpoints + name + "/expected.safetensors");
    const auto tokens = input_of(expected);
    const auto all = static_cast<std::int64_t>(tokens.size());
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{7}, all}) {
      CAPTURE(name);
      CAPTURE(chunk);
      const auto cache = full_cache(network, all);
      const std::vector<float> logits = all_logits(network, tokens, *cache, chunk);
      CHECK(relative_error(logits, expected.at("logits").values<float>()) < tolerance);
      const qwen3::model_config& c = network.config();
      const auto head = static_cast<std::size_t>(all * c.head_dim);
      std::vector<float> keys(head * static_cast<std::size_t>(c.kv_heads)), values(keys.size());
      for (std::int64_t layer = 0; layer < c.layers; ++layer) {
        for (std::int64_t h = 0; h < c.kv_heads; ++h)
          cache->read(layer, h, &keys[static_cast<std::size_t>(h) * head], &values[static_cast<std::size_t>(h) * head]);
        CHECK(relative_error(keys, expected.at("keys." + std::to_string(layer)).values<float>()) < tolerance);
        CHECK(relative_error(values, expected.at("values." + std::to_string(layer)).values<float>()) < tolerance);
      }
    }
  }
}

TEST_CASE("caches of 16 bits give the same logits within their rounding") {
  for (const std::string& name : golden) {
    const model network = model::open(checkpoints + name, cast_to(name));
    const auto expected = qwen3::safetensors_file::open(checkpoints + name + "/expected.safetensors");
    const auto tokens = input_of(expected);
    for (const auto& [dtype, share] : {std::pair{qwen3::cache_dtype::bf16, 0.1}, {qwen3::cache_dtype::f16, 0.02}}) {
      CAPTURE(name);
      const auto cache = full_cache(network, static_cast<std::int64_t>(tokens.size()), dtype);
      const double error =
          relative_error(all_logits(network, tokens, *cache, 16), expected.at("logits").values<float>());
      CHECK(error < share);
      CHECK(error > tolerance / 20);  // it was rounded at all
    }
  }
}

TEST_CASE("the logits of the last rows are those of all rows") {
  const model network = model::open(checkpoints + "qwen2_gqa_bf16", qwen3::weight_type::bf16);
  const auto expected = qwen3::safetensors_file::open(checkpoints + "qwen2_gqa_bf16/expected.safetensors");
  const auto tokens = input_of(expected).first(40);
  const auto cache = full_cache(network, 40);
  qwen3::activations memory;
  std::vector<float> logits(3 * 130);
  network.forward({}, tokens, *cache, memory, 3, logits.data());
  CHECK(relative_error(logits, expected.at("logits").values<float>().subspan(37 * 130, 3 * 130)) < tolerance);
  CHECK(cache->seen() == 40);
}

TEST_CASE("a token outside the vocabulary is refused before anything changes") {
  const model network = model::open(checkpoints + "llama_gqa_f32");
  const auto cache = full_cache(network, 4);
  qwen3::activations memory;
  std::vector<float> logits(130);
  const auto run = [&](std::int32_t bad) {
    const std::vector<std::int32_t> tokens{5, bad};
    return message_of<qwen3::usage_error>([&] { network.forward({}, tokens, *cache, memory, 1, logits.data()); });
  };
  CHECK(run(130) == "token 1 is 130; the model's vocabulary has ids 0 to 129");
  CHECK(run(-1) == "token 1 is -1; the model's vocabulary has ids 0 to 129");
  CHECK(cache->seen() == 0);
}

TEST_CASE("several sequences of one model do not see each other") {
  const model network = model::open(checkpoints + "qwen3_gqa_f16", qwen3::weight_type::f16);
  const auto expected = qwen3::safetensors_file::open(checkpoints + "qwen3_gqa_f16/expected.safetensors");
  const auto tokens = input_of(expected);
  const auto first = full_cache(network, 75), second = full_cache(network, 75);
  qwen3::activations memory;
  std::vector<float> logits(97);
  for (const std::int32_t token : tokens) {
    network.forward({}, {&token, 1}, *first, memory, 1, logits.data());
    const std::int32_t other = 96 - token;
    network.forward({}, {&other, 1}, *second, memory, 0, nullptr);
  }
  CHECK(relative_error(logits, expected.at("logits").values<float>().last(97)) < tolerance);
}
