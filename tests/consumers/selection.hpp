#pragma once

// What every consumer project here runs: a cache driven by scores that are hard to decide on, and attention over it.
// Everything has internal linkage, so that a program may hold it once per translation unit, each compiled with other
// flags.

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "kvpop/kvpop.hpp"  // the library as a whole

namespace {

constexpr kvpop::index_t consumer_heads = 2;
constexpr kvpop::index_t consumer_dim = 16;

/// Scores that a comparison of floats gets wrong, above all under -ffast-math: NaN, infinities, both zeros, subnormals.
struct hard_scores {
  static constexpr std::array<std::uint32_t, 11> bits = {
      0x3f800000, 0x7fc00000, 0x80000000, 0x00000000, 0x7f800000, 0xff800000,  // 1, NaN, -0, 0, inf, -inf
      0x00000001, 0x80000001, 0xffc00001, 0xbf800000, 0x007fffff};  // subnormals, -NaN, -1, largest subnormal

  [[nodiscard]] kvpop::index_t delay() const noexcept { return 2; }
  [[nodiscard]] float log_gamma(kvpop::index_t head) const noexcept { return head == 0 ? 0.0F : -0.015625F; }
  [[nodiscard]] float score(kvpop::index_t head, kvpop::index_t position, const float*, const float*) const noexcept {
    return std::bit_cast<float>(bits[index(head, position)]);
  }
  static std::size_t index(kvpop::index_t head, kvpop::index_t position) {
    return static_cast<std::uint64_t>(position * 7 + head * 5 + position * position) % bits.size();
  }
};

using consumer_cache = kvpop::budgeted_cache<float, consumer_dim>;

/// A cache after `tokens` tokens, and the positions of each head's slots after each chunk, as text.
template <class Scorer>
std::string drive(consumer_cache& cache, const Scorer& scorer) {
  constexpr kvpop::index_t tokens = 13, chunks = 11;
  const auto ref = cache.ref();
  std::vector<float> data(tokens * consumer_heads * consumer_dim);
  const kvpop::chunk_view<const float> x(data.data(), {1, tokens, consumer_heads, consumer_dim});
  std::string text;
  for (kvpop::index_t chunk = 0; chunk < chunks; ++chunk) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(chunk) * 17) % 23) * 0.125F - 1.0F;
    }
    kvpop::append(kvpop::host_context(), ref, scorer, x, x);
    for (kvpop::index_t h = 0; h < consumer_heads; ++h) {
      for (kvpop::index_t slot = 0; slot < ref.held(0, h); ++slot) {
        text += std::to_string(ref.head(0, h).positions[slot]) + ' ';
      }
      text += '\n';
    }
  }
  return text;
}

template <class Scorer>
std::string held_positions(const Scorer& scorer) {
  consumer_cache cache({.sequences = 1, .kv_heads = consumer_heads}, {.sinks = 2, .window = 3, .topk = 6});
  return drive(cache, scorer);
}

/// Death times of the same hard values as priorities.
std::string death_times_of_hard_priorities() {
  constexpr kvpop::index_t tokens = 101;
  const kvpop::budget limits{.sinks = 1, .window = 4, .topk = 7};
  std::vector<double> priorities(consumer_heads * tokens);
  for (kvpop::index_t i = 0; i < consumer_heads * tokens; ++i) {
    const std::uint64_t high = hard_scores::bits[hard_scores::index(i / tokens, i % tokens)];
    priorities[static_cast<std::size_t>(i)] = std::bit_cast<double>((high << 32U) | (high & 0x3U));
  }
  std::vector<kvpop::index_t> death(priorities.size());
  const kvpop::host_context ctx;
  std::vector<std::byte> scratch(kvpop::death_times_workspace(ctx, consumer_heads, tokens, limits));
  kvpop::death_times(ctx, {priorities.data(), {consumer_heads, tokens}}, {}, {death.data(), {consumer_heads, tokens}},
                     limits, {scratch.data(), scratch.size()});
  std::string text;
  for (const kvpop::index_t t : death) {
    text += std::to_string(t) + ' ';
  }
  return text + '\n';
}

/// All that is selected, as text: two builds of this file decided the same exactly when the texts are equal.
std::string selection() {
  return held_positions(hard_scores{}) + held_positions(kvpop::random_scorer(1)) + death_times_of_hard_priorities();
}

/// Decode attention over a full cache, [4 query heads, dim]: equal within rounding in every build.
std::vector<float> attention() {
  constexpr kvpop::index_t query_heads = 2 * consumer_heads;
  consumer_cache cache({.sequences = 1, .kv_heads = consumer_heads}, {.sinks = 2, .window = 3, .topk = 40});
  drive(cache, kvpop::random_scorer(2));
  std::vector<float> q(query_heads * consumer_dim);
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = static_cast<float>(i % 7) * 0.25F - 0.5F;
  }
  std::vector<float> out(q.size());
  const std::array<kvpop::index_t, 3> extents{1, query_heads, consumer_dim};
  kvpop::decode_attention(kvpop::host_context(), kvpop::step_view<const float>(q.data(), extents), cache.ref(),
                          kvpop::step_view<float>(out.data(), extents));
  return out;
}

}  // namespace
