#include "teacher.hpp"

#include <utility>

#include "head_dims.hpp"                  // visit_head_dim
#include "kvpop/attention/masked.hpp"     // masked_attention, masked_workspace
#include "kvpop/attention/reduction.hpp"  // power_mean, largest_weight, weight_sum

namespace qwen3 {

namespace {

using kvpop::index_t;

kvpop::workspace grown(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return {memory.data(), memory.size()};
}

}  // namespace

teacher::teacher(const model_config& config, const packed_row& row, layer_function each_layer)
    : config_(config), row_(row), each_layer_(std::move(each_layer)) {
  check_head_dim(config.head_dim);
  for (std::int64_t d = 0; d < row.documents(); ++d)
    segments_.insert(segments_.end(), static_cast<std::size_t>(row.end(d) - row.begin(d)),
                     static_cast<std::int32_t>(d));
  lse_.resize(static_cast<std::size_t>(row.size() * config.query_heads));
}

std::int64_t teacher::position(std::int64_t i) const { return i - row_.begin(segments_[static_cast<std::size_t>(i)]); }

void teacher::attend(const kvpop::host_context& ctx, std::int64_t layer, const qkv_chunk& chunk, float* out) {
  kvpop::masked_params params;
  params.lse = {lse_.data(), {1, chunk.tokens, config_.query_heads}};
  params.segments = {segments_.data(), {1, chunk.tokens}};
  layer_attention(ctx, config_, chunk, params, scratch_, out);
  if (each_layer_) each_layer_(ctx, layer, chunk, lse_.data());
}

void layer_attention(const kvpop::host_context& ctx, const model_config& config, const qkv_chunk& chunk,
                     const kvpop::masked_params& params, std::vector<std::byte>& scratch, float* out) {
  const index_t n = chunk.tokens, query_heads = config.query_heads, kv_heads = config.kv_heads;
  visit_head_dim(config.head_dim, [&](auto dim) {
    constexpr index_t d = dim();
    const kvpop::workspace memory =
        grown(scratch, kvpop::masked_workspace<d, d>(ctx, 1, n, query_heads, kv_heads, params));
    const kvpop::chunk_view<float> to =
        out != nullptr ? kvpop::chunk_view<float>(out, {1, n, query_heads, d}) : kvpop::chunk_view<float>();
    kvpop::masked_attention<d, d>(ctx, kvpop::chunk_view<const float>(chunk.q, {1, n, query_heads, d}),
                                  kvpop::chunk_view<const float>(chunk.k, {1, n, kv_heads, d}),
                                  kvpop::chunk_view<const float>(chunk.v, {1, n, kv_heads, d}), to, params, memory);
  });
}

void layer_targets(const kvpop::host_context& ctx, const model_config& config, const qkv_chunk& chunk, const float* lse,
                   std::span<const std::int32_t> segments, std::int64_t window, const target_settings& settings,
                   std::vector<std::byte>& scratch, float* target) {
  const index_t n = chunk.tokens, query_heads = config.query_heads, kv_heads = config.kv_heads, dim = config.head_dim;
  kvpop::future_params params;
  params.transposed.delay = window;
  params.transposed.segments = {segments.data(), {1, n}};
  params.aggregate = settings.over_group;
  const kvpop::workspace memory = grown(scratch, kvpop::future_workspace(ctx, 1, n, query_heads, kv_heads, dim));
  const auto run = [&](const auto& reduction) {
    kvpop::future_attention(ctx, kvpop::chunk_view<const float>(chunk.q, {1, n, query_heads, dim}),
                            kvpop::chunk_view<const float>(chunk.k, {1, n, kv_heads, dim}),
                            kvpop::chunk_lse_view<const float>(lse, {1, n, query_heads}), reduction,
                            {target, {1, kv_heads, n}}, params, memory);
  };
  switch (settings.over_queries) {
    case target_settings::reduction::power:
      return run(kvpop::power_mean(static_cast<float>(settings.alpha)));
    case target_settings::reduction::max:
      return run(kvpop::largest_weight{});
    case target_settings::reduction::sum:
      return run(kvpop::weight_sum{});
  }
}

}  // namespace qwen3
