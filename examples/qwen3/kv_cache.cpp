#include "kv_cache.hpp"

#include <utility>

#include "kv_cache_parts.hpp"  // make_kv_cache_of

namespace qwen3 {

namespace {

// The scorer of one layer; a learned one is kept alive by `owners`.
layer_scorer scorer_of(const model_config& config, const scorer_set& scorers, const kv_cache_request& request,
                       std::int64_t layer, std::vector<kvpop::scorer_layer>& owners) {
  if (request.replay != nullptr) {
    const std::vector<std::int64_t>& deaths = (*request.replay)[static_cast<std::size_t>(layer)];
    const auto tokens = static_cast<kvpop::index_t>(deaths.size()) / config.kv_heads;
    return kvpop::replay({deaths.data(), {config.kv_heads, tokens}});
  }
  switch (request.plan.name) {
    case method::random:
      return kvpop::random_scorer(request.seed, layer);
    case method::key_norm:
      return kvpop::key_norm(config.head_dim);
    case method::tova:
      return kvpop::tova{};
    case method::h2o:
      return kvpop::h2o{};
    case method::snapkv:
      return kvpop::snapkv(config.query_heads / config.kv_heads, config.head_dim);
    case method::kvpop_mlp:
    case method::kvpop:
      owners.push_back(scorers.of(request.plan.name)->layer(layer));
      return owners.back().ref();
    case method::full:
    case method::streaming:
    case method::oracle:  // always a replay
      break;
  }
  return kvpop::recency{};
}

kvpop::index_t memory_of(const layer_scorer& scorer) {
  return std::visit([](const auto& s) { return kvpop::memory_size_of(s); }, scorer);
}

}  // namespace

std::unique_ptr<kv_cache> make_kv_cache(const model_config& config, const scorer_set& scorers,
                                        const kv_cache_request& request) {
  check_head_dim(config.head_dim);
  kv_cache_parts parts;
  parts.query_heads = config.query_heads;
  parts.head_dim = config.head_dim;
  parts.limits = request.plan.limits;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    parts.scorers.push_back(scorer_of(config, scorers, request, layer, parts.scorer_owners));
  parts.shape = {.sequences = 1,
                 .kv_heads = config.kv_heads,
                 .memory = memory_of(parts.scorers.front()),
                 .prompt = request.plan.name == method::snapkv ? request.prompt : 0};
  switch (request.dtype) {
    case cache_dtype::bf16:
      return make_kv_cache_of<kvpop::bfloat16>(std::move(parts));
    case cache_dtype::f16:
      return make_kv_cache_of<kvpop::float16>(std::move(parts));
    case cache_dtype::f32:
      break;
  }
  return make_kv_cache_of<float>(std::move(parts));
}

}  // namespace qwen3
