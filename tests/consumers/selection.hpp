#pragma once

// What every consumer project here runs: a cache driven by scores that are hard to decide on. Everything has internal
// linkage, so that a program may hold it once per translation unit, each compiled with other flags.

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "kvpop/cache/append.hpp"  // append
#include "kvpop/cache/cache.hpp"   // budgeted_cache
#include "kvpop/score/random.hpp"  // random_scorer

namespace {

/// Scores that a comparison of floats gets wrong, above all under -ffast-math: NaN, infinities, both zeros, subnormals.
struct given_scores {
  static constexpr std::array<std::uint32_t, 11> bits = {
      0x3f800000, 0x7fc00000, 0x80000000, 0x00000000, 0x7f800000, 0xff800000,  // 1, NaN, -0, 0, inf, -inf
      0x00000001, 0x80000001, 0xffc00001, 0xbf800000, 0x007fffff};  // subnormals, -NaN, -1, largest subnormal

  [[nodiscard]] kvpop::index_t delay() const noexcept { return 2; }
  [[nodiscard]] float log_gamma(kvpop::index_t head) const noexcept { return head == 0 ? 0.0F : -0.015625F; }
  [[nodiscard]] float score(kvpop::index_t head, kvpop::index_t position, const float*, const float*) const noexcept {
    const auto mixed = static_cast<std::uint64_t>(position * 7 + head * 5 + position * position);
    return std::bit_cast<float>(bits[mixed % bits.size()]);
  }
};

/// "position position ..." of each head's slots after each chunk of a long sequence.
template <class Scorer>
std::string held_positions(const Scorer& scorer) {
  constexpr kvpop::index_t heads = 2, tokens = 13, chunks = 11, dim = 4;
  const kvpop::host_context ctx;
  kvpop::budgeted_cache<float, dim> cache({.sequences = 1, .kv_heads = heads}, {.sinks = 2, .window = 3, .topk = 6});
  const auto ref = cache.ref();
  std::vector<float> data(tokens * heads * dim, 0.5F);
  const kvpop::chunk_view<const float> x(data.data(), {1, tokens, heads, dim});
  std::string text;
  for (kvpop::index_t chunk = 0; chunk < chunks; ++chunk) {
    kvpop::append(ctx, ref, scorer, x, x);
    for (kvpop::index_t h = 0; h < heads; ++h) {
      for (kvpop::index_t slot = 0; slot < ref.held(0, h); ++slot) {
        text += std::to_string(ref.head(0, h).positions[slot]) + ' ';
      }
      text += '\n';
    }
  }
  return text;
}

/// The whole selection as text: two builds of this file decided the same exactly when the texts are equal.
std::string selection() { return held_positions(given_scores{}) + held_positions(kvpop::random_scorer(1)); }

}  // namespace
