#include "generate.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "console.hpp"  // note

namespace qwen3 {

namespace {

using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

}  // namespace

void warn_of_positions(const model_config& config, std::int64_t tokens) {
  if (tokens <= config.max_positions) return;
  note("warning: positions go past the " + std::to_string(config.max_positions) +
       " that the model was trained for (max_position_embeddings)");
}

generation generate(const kvpop::host_context& ctx, const model& network, const tokenizer& words, kv_cache& cache,
                    std::span<const std::int32_t> prompt, std::span<const std::int32_t> stop, sampler& sample,
                    const generation_limits& limits, const std::function<void(std::string_view)>& on_text) {
  const model_config& config = network.config();
  generation result;
  activations memory;
  std::vector<float> logits(static_cast<std::size_t>(config.vocabulary));
  warn_of_positions(config, static_cast<std::int64_t>(prompt.size()));

  auto begin = steady_clock::now();
  const auto chunk = static_cast<std::size_t>(limits.chunk);
  for (std::size_t i = 0; i < prompt.size(); i += chunk) {
    const auto part = prompt.subspan(i, std::min(chunk, prompt.size() - i));
    const bool last = i + part.size() == prompt.size();
    network.forward(ctx, part, cache, memory, last ? 1 : 0, logits.data());
  }
  cache.end_prompt(ctx);
  result.prompt_seconds = seconds_since(begin);

  text_stream text(words);
  // A vocabulary may be padded beyond the tokens that have a text.
  const auto drawable = std::span(std::as_const(logits))
                            .first(static_cast<std::size_t>(std::min<std::int64_t>(config.vocabulary, words.size())));
  for (std::int64_t i = 0; i < limits.max_tokens; ++i) {
    const std::int32_t token = sample(drawable);
    result.stopped = std::find(stop.begin(), stop.end(), token) != stop.end();
    if (result.stopped) break;
    result.tokens.push_back(token);
    on_text(text.push(token));
    if (i + 1 == limits.max_tokens) break;
    if (cache.seen() == config.max_positions) warn_of_positions(config, cache.seen() + 1);
    begin = steady_clock::now();
    network.forward(ctx, {&token, 1}, cache, memory, 1, logits.data());
    result.decode_seconds += seconds_since(begin);
    ++result.steps;
  }
  on_text(text.finish());
  return result;
}

}  // namespace qwen3
