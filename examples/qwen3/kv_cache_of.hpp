#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "kv_cache_parts.hpp"           // kv_cache, kv_cache_parts
#include "kvpop/attention/decode.hpp"   // decode_attention
#include "kvpop/attention/prefill.hpp"  // prefill
#include "kvpop/cache/append.hpp"       // append
#include "kvpop/cache/attended.hpp"     // attended
#include "kvpop/cache/cache.hpp"        // budgeted_cache
#include "kvpop/cache/end_prompt.hpp"   // end_prompt, compact
#include "kvpop/select/order.hpp"       // never

namespace qwen3 {

/// kv_cache over one kvpop::budgeted_cache<T, Dim> a layer.
template <class T, kvpop::index_t Dim>
class kv_cache_of final : public kv_cache {
  using index_t = kvpop::index_t;
  using ref_type = kvpop::budgeted_cache_ref<T, Dim>;

 public:
  explicit kv_cache_of(kv_cache_parts parts)
      : query_heads_(parts.query_heads),
        prompt_open_(parts.shape.prompt > 0),
        scorers_(std::move(parts.scorers)),
        scorer_owners_(std::move(parts.scorer_owners)) {
    layers_.reserve(scorers_.size());
    for (std::size_t i = 0; i < scorers_.size(); ++i) layers_.emplace_back(parts.shape, parts.limits);
  }

  void attend(const kvpop::host_context& ctx, std::int64_t layer, const qkv_chunk& chunk, float* out) override {
    const ref_type cache = ref(layer);
    const index_t first = cache.seen(0);
    evicted_.resize(recording_ ? static_cast<std::size_t>(chunk.tokens * cache.kv_heads()) : 0);
    visit_scorer(scorers_[static_cast<std::size_t>(layer)], [&](const auto& scorer) {
      if (chunk.tokens == 1) {
        step(ctx, cache, scorer, chunk, out);
      } else {
        many(ctx, cache, scorer, chunk, out);
      }
    });
    if (recording_) note_evictions(layer, first, chunk.tokens);
  }

  void end_prompt(const kvpop::host_context& ctx) override {
    if (!std::exchange(prompt_open_, false)) return;
    for (index_t layer = 0; layer < layer_count(); ++layer) {
      const ref_type cache = ref(layer);
      const kvpop::workspace scratch =
          borrow(std::max(kvpop::end_prompt_workspace(cache), kvpop::compact_workspace(cache)));
      if (const auto* snapkv = std::get_if<kvpop::snapkv>(&scorers_[static_cast<std::size_t>(layer)])) {
        kvpop::end_prompt(ctx, cache, *snapkv, 0, {}, scratch);
      } else {
        kvpop::compact(ctx, cache, 0, scratch);  // replayed death times are priorities already
      }
      if (recording_) note_compaction(layer);
    }
  }

  std::int64_t seen() const override { return ref(0).seen(0); }

  std::vector<std::int64_t> held_positions(std::int64_t layer, std::int64_t kv_head) const override {
    const auto head = ref(layer).head(0, kv_head);
    std::vector<std::int64_t> result(head.positions, head.positions + *head.held);
    std::sort(result.begin(), result.end());
    return result;
  }

  void read(std::int64_t layer, std::int64_t kv_head, float* keys, float* values) const override {
    const auto head = ref(layer).head(0, kv_head);
    std::vector<std::pair<index_t, index_t>> order;  // position, slot
    for (index_t slot = 0; slot < *head.held; ++slot) order.emplace_back(head.positions[slot], slot);
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (index_t d = 0; d < Dim; ++d) {
        keys[static_cast<index_t>(i) * Dim + d] = static_cast<float>(head.keys[order[i].second * Dim + d]);
        values[static_cast<index_t>(i) * Dim + d] = static_cast<float>(head.values[order[i].second * Dim + d]);
      }
    }
  }

  std::int64_t held_bytes() const override {
    std::int64_t bytes = 0;
    for (index_t layer = 0; layer < layer_count(); ++layer) {
      const ref_type cache = ref(layer);
      for (index_t h = 0; h < cache.kv_heads(); ++h) {
        bytes += cache.held(0, h) * ref_type::entry_bytes();
        bytes += cache.shape().memory * static_cast<index_t>(sizeof(float));
      }
    }
    return bytes;
  }

  void record_deaths() override {
    recording_ = true;
    deaths_.resize(layers_.size());
  }

  death_record deaths() const override {
    death_record result(layers_.size());
    const auto heads = static_cast<std::size_t>(ref(0).kv_heads());
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::size_t tokens = deaths_[layer].size() / heads;
      result[layer].resize(deaths_[layer].size());
      for (std::size_t t = 0; t < tokens; ++t)
        for (std::size_t h = 0; h < heads; ++h) result[layer][h * tokens + t] = deaths_[layer][t * heads + h];
    }
    return result;
  }

 private:
  index_t layer_count() const { return static_cast<index_t>(layers_.size()); }
  ref_type ref(index_t layer) const { return layers_[static_cast<std::size_t>(layer)].ref(); }

  kvpop::workspace borrow(std::size_t bytes) {
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    return {scratch_.data(), scratch_.size()};
  }

  kvpop::eviction_view evictions(index_t tokens, index_t kv_heads) {
    if (!recording_) return {};
    return {evicted_.data(), {1, tokens, kv_heads}};
  }

  template <class Scorer>
  void step(const kvpop::host_context& ctx, const ref_type& cache, const Scorer& scorer, const qkv_chunk& chunk,
            float* out) {
    const index_t kv_heads = cache.kv_heads();
    const kvpop::step_view<const float> q(chunk.q, {1, query_heads_, Dim});
    const kvpop::step_view<const float> k(chunk.k, {1, kv_heads, Dim}), v(chunk.v, {1, kv_heads, Dim});
    kvpop::append(ctx, cache, scorer, k, v, {.counts = {}, .evicted = evictions(1, kv_heads)});
    kvpop::attention_outputs outputs;
    if constexpr (kvpop::needs_weights<Scorer>) {
      weights_.resize(static_cast<std::size_t>(kv_heads * cache.slots()));
      outputs.weights = {weights_.data(), {1, kv_heads, cache.slots()}};
    }
    kvpop::decode_attention(ctx, q, cache, kvpop::step_view<float>(out, {1, query_heads_, Dim}), {}, outputs,
                            borrow(kvpop::decode_workspace(cache, query_heads_)));
    if constexpr (kvpop::attending_scorer<Scorer>) kvpop::attended(ctx, cache, scorer, q, outputs.weights);
  }

  template <class Scorer>
  void many(const kvpop::host_context& ctx, const ref_type& cache, const Scorer& scorer, const qkv_chunk& chunk,
            float* out) {
    const index_t n = chunk.tokens, kv_heads = cache.kv_heads();
    const kvpop::chunk_view<const float> q(chunk.q, {1, n, query_heads_, Dim});
    const kvpop::chunk_view<const float> k(chunk.k, {1, n, kv_heads, Dim}), v(chunk.v, {1, n, kv_heads, Dim});
    kvpop::prefill_params params;
    params.evicted = evictions(n, kv_heads);
    kvpop::prefill(ctx, cache, scorer, q, k, v, kvpop::chunk_view<float>(out, {1, n, query_heads_, Dim}), params,
                   borrow(kvpop::prefill_workspace<Scorer>(ctx, cache, n, query_heads_)));
  }

  // Token `first + i` evicted evicted_[i, h].
  void note_evictions(index_t layer, index_t first, index_t tokens) {
    std::vector<index_t>& deaths = deaths_[static_cast<std::size_t>(layer)];
    const index_t heads = ref(layer).kv_heads();
    deaths.resize(static_cast<std::size_t>((first + tokens) * heads), kvpop::never);
    for (index_t i = 0; i < tokens * heads; ++i) {
      const index_t gone = evicted_[static_cast<std::size_t>(i)].position;
      if (gone >= 0) deaths[static_cast<std::size_t>(gone * heads + i % heads)] = first + i / heads;
    }
  }

  // Whoever is not held any more died with the next query.
  void note_compaction(index_t layer) {
    const index_t seen = ref(layer).seen(0), heads = ref(layer).kv_heads();
    for (index_t h = 0; h < heads; ++h) {
      const std::vector<index_t> held = held_positions(layer, h);
      for (index_t t = 0; t < seen; ++t) {
        index_t& death = deaths_[static_cast<std::size_t>(layer)][static_cast<std::size_t>(t * heads + h)];
        if (death == kvpop::never && !std::binary_search(held.begin(), held.end(), t)) death = seen;
      }
    }
  }

  index_t query_heads_;
  bool prompt_open_;
  std::vector<layer_scorer> scorers_;
  std::vector<kvpop::scorer_layer> scorer_owners_;
  mutable std::vector<kvpop::budgeted_cache<T, Dim>> layers_;  // `ref` is not const

  std::vector<std::byte> scratch_;
  std::vector<float> weights_;  // [kv_heads, slots] of a step
  bool recording_ = false;
  std::vector<kvpop::eviction> evicted_;      // [tokens, kv_heads] of a chunk
  std::vector<std::vector<index_t>> deaths_;  // [layers][tokens, kv_heads]
};

template <class T>
std::unique_ptr<kv_cache> make_kv_cache_of(kv_cache_parts parts) {
  const auto make = [&](auto dim) -> std::unique_ptr<kv_cache> {
    return std::make_unique<kv_cache_of<T, dim()>>(std::move(parts));
  };
  return visit_head_dim(parts.head_dim, make);
}

}  // namespace qwen3
