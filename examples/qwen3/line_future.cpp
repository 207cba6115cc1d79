#include "line_future.hpp"

#include <algorithm>

#include "kvpop/select/death_times.hpp"  // death_times
#include "kvpop/select/top_k.hpp"        // top_k
#include "teacher.hpp"                   // teacher, layer_targets

namespace qwen3 {

using kvpop::index_t;

void line_future::look(const kvpop::host_context& ctx, const model& network, std::span<const std::int32_t> tokens,
                       std::int64_t window, const target_settings& settings) {
  const model_config& config = network.config();
  layers_ = config.layers, kv_heads_ = config.kv_heads, tokens_ = static_cast<std::int64_t>(tokens.size());
  targets_.resize(static_cast<std::size_t>(layers_ * kv_heads_ * tokens_));
  const packed_row row{{tokens.begin(), tokens.end()}, {0}};
  teacher dense(config, row, nullptr);
  dense.set([&](const kvpop::host_context& c, std::int64_t layer, const qkv_chunk& chunk, const float* lse) {
    layer_targets(c, config, chunk, lse, dense.segments(), window, settings, scratch_,
                  targets_.data() + layer * kv_heads_ * tokens_);
  });
  network.forward(ctx, tokens, dense, activations_, 0, nullptr);
}

death_record line_future::deaths(const kvpop::budget& limits) const {
  death_record result;
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    const auto begin = targets_.begin() + layer * kv_heads_ * tokens_;
    const std::vector<double> priorities(begin, begin + kv_heads_ * tokens_);
    result.emplace_back(priorities.size());
    std::vector<std::byte> memory(kvpop::death_times_workspace({}, kv_heads_, tokens_, limits));
    kvpop::death_times({}, kvpop::row_view<const double>(priorities.data(), {kv_heads_, tokens_}), {},
                       kvpop::row_view<index_t>(result.back().data(), {kv_heads_, tokens_}), limits,
                       {memory.data(), memory.size()});
  }
  return result;
}

std::vector<double> line_future::recall(const kv_cache& cache, const kvpop::budget& limits) const {
  const index_t eligible = kvpop::eligible_tokens(tokens_, limits), k = std::min(limits.topk, eligible);
  if (k == 0) return {};
  std::vector<double> result;
  std::vector<index_t> best(static_cast<std::size_t>(k));
  std::vector<std::byte> memory(kvpop::top_k_workspace({}, 1, eligible, k));
  for (std::int64_t layer = 0; layer < layers_; ++layer) {
    index_t found = 0;
    for (std::int64_t h = 0; h < kv_heads_; ++h) {
      const auto begin = targets_.begin() + (layer * kv_heads_ + h) * tokens_ + limits.sinks;
      const std::vector<double> priorities(begin, begin + eligible);
      kvpop::top_k({}, kvpop::row_view<const double>(priorities.data(), {1, eligible}), {},
                   kvpop::row_view<index_t>(best.data(), {1, k}), kvpop::top_k_order::position,
                   {memory.data(), memory.size()});
      const std::vector<std::int64_t> held = cache.held_positions(layer, h);
      for (const index_t t : best) found += std::binary_search(held.begin(), held.end(), t + limits.sinks) ? 1 : 0;
    }
    result.push_back(static_cast<double>(found) / static_cast<double>(k * kv_heads_));
  }
  return result;
}

}  // namespace qwen3
