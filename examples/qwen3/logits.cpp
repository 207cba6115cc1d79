#include "logits.hpp"

#include <algorithm>
#include <vector>

#include "safetensors.hpp"  // safetensors_writer

namespace qwen3 {

void run_chunks(const kvpop::host_context& ctx, const model& network, std::span<const std::int32_t> tokens,
                kv_cache& cache, std::int64_t chunk, std::int64_t prompt,
                const std::function<void(std::span<const float> logits)>& on_logits) {
  const auto all = static_cast<std::int64_t>(tokens.size());
  activations memory;
  std::vector<float> logits;  // [rows, vocabulary]
  for (std::int64_t begin = 0; begin < all;) {
    std::int64_t end = begin + std::min(chunk, all - begin);
    if (begin < prompt) end = std::min(end, prompt);
    const std::int64_t rows = end - begin;
    logits.resize(static_cast<std::size_t>(rows * network.config().vocabulary));
    const auto part = tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows));
    network.forward(ctx, part, cache, memory, rows, logits.data());
    if (end == prompt) cache.end_prompt(ctx);
    on_logits(logits);
    begin = end;
  }
}

void write_logits(const kvpop::host_context& ctx, const model& network, std::span<const std::int32_t> tokens,
                  kv_cache& cache, std::int64_t chunk, std::int64_t prompt, bool keys_and_values,
                  const std::string& path) {
  const model_config& config = network.config();
  const auto all = static_cast<std::int64_t>(tokens.size());
  std::vector<tensor_shape> tensors{{"logits", "F32", {all, config.vocabulary}}};
  for (std::int64_t layer = 0; keys_and_values && layer < config.layers; ++layer) {
    for (const char* name : {"keys.", "values."})
      tensors.push_back({name + std::to_string(layer), "F32", {config.kv_heads, all, config.head_dim}});
  }
  safetensors_writer file(path, tensors);
  run_chunks(ctx, network, tokens, cache, chunk, prompt, [&](std::span<const float> logits) { file.append(logits); });
  if (keys_and_values) {
    const auto head = static_cast<std::size_t>(all * config.head_dim);
    std::vector<float> keys(head * static_cast<std::size_t>(config.kv_heads)), values(keys.size());  // [kv_heads, S, D]
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      for (std::int64_t h = 0; h < config.kv_heads; ++h) {
        const std::size_t at = static_cast<std::size_t>(h) * head;
        cache.read(layer, h, keys.data() + at, values.data() + at);
      }
      file.append(std::span<const float>(keys));
      file.append(std::span<const float>(values));
    }
  }
  file.finish();
}

}  // namespace qwen3
