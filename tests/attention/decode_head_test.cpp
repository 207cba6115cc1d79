#include "kvpop/attention/decode_head.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/attention_oracle.hpp"  // attend, close
#include "support/generators.hpp"        // generator, draws

// The head layer on plain pointers, as docs/kernels.md offers it to whoever replaces a kernel.

using kvpop::index_t;
using kvpop_test::generator;

namespace {

constexpr index_t key_dim = 9;
constexpr index_t value_dim = 6;

struct head {
  std::vector<kvpop::bfloat16> k, v;
  std::vector<index_t> positions;
  std::vector<std::vector<float>> q;

  head(generator& random, index_t slots, index_t queries) : q(static_cast<std::size_t>(queries)) {
    for (index_t i = 0; i < slots * key_dim; ++i) k.emplace_back(random.normal());
    for (index_t i = 0; i < slots * value_dim; ++i) v.emplace_back(random.normal());
    for (index_t i = 0; i < slots; ++i) positions.push_back((i * 37) % 1000);
    for (auto& row : q)
      for (index_t d = 0; d < key_dim; ++d) row.push_back(random.normal());
  }
  [[nodiscard]] index_t slots() const { return static_cast<index_t>(positions.size()); }
  [[nodiscard]] kvpop::decode_keys<kvpop::bfloat16> keys(index_t oldest, float soft_cap) const {
    return {k.data(), v.data(), positions.data(), slots(), oldest, soft_cap};
  }
  [[nodiscard]] kvpop::decode_queries<key_dim> queries() const {
    kvpop::decode_queries<key_dim> result{};
    for (const auto& row : q) result.push(row.data(), 1.0F);
    return result;
  }
};

}  // namespace

TEST_CASE("states of blocks, merged in order, are attention over all slots; weights are those of the softmax") {
  for (int i = 0; i < kvpop_test::draws(300); ++i) {
    generator random(4'500'000 + static_cast<std::uint64_t>(i));
    const head h(random, random.pick<index_t>({1, 2, 15, 17, 255, 256, 257, 600}),
                 random.integer(1, kvpop::decode_heads));
    const float soft_cap = random.chance(0.3) ? 3.0F : 0.0F;
    const index_t oldest = random.chance(0.3) ? random.integer(0, 1100) : INT64_MIN;
    const auto keys = h.keys(oldest, soft_cap);
    const auto queries = h.queries();
    kvpop::decode_tile tile;
    std::vector<kvpop::softmax_state<value_dim>> all(h.q.size()), block(h.q.size());
    for (index_t first = 0; first < h.slots(); first += kvpop::decode_block) {
      kvpop::decode_states(queries, keys, first, std::min(kvpop::decode_block, h.slots() - first), tile, block.data());
      for (std::size_t g = 0; g < all.size(); ++g) all[g].merge(block[g]);
    }
    std::vector<float> lse(h.q.size()), weights(static_cast<std::size_t>(h.slots()), 0.0F);
    std::vector<double> expected_weights(weights.size(), 0.0);
    for (std::size_t g = 0; g < all.size(); ++g) {
      float out[value_dim];
      lse[g] = all[g].finish(out);
      const auto expected = kvpop_test::attend(
          kvpop_test::row_of(h.q[g].data(), key_dim), kvpop_test::rows_of(h.k.data(), h.slots(), key_dim),
          kvpop_test::rows_of(h.v.data(), h.slots(), value_dim), value_dim, 1.0, static_cast<double>(soft_cap),
          [&](std::int64_t slot) { return h.positions[static_cast<std::size_t>(slot)] >= oldest; });
      for (std::size_t d = 0; d < value_dim; ++d)
        REQUIRE(kvpop_test::close(static_cast<double>(out[d]), expected.out[d], 4, 30));
      REQUIRE(kvpop_test::close(static_cast<double>(lse[g]), expected.lse, 1, 30));
      for (std::size_t s = 0; s < weights.size(); ++s) expected_weights[s] += expected.weights[s];
    }
    for (index_t first = 0; first < h.slots(); first += kvpop::decode_block)
      kvpop::decode_weights(queries, keys, first, std::min(kvpop::decode_block, h.slots() - first), lse.data(), tile,
                            weights.data() + first);
    for (std::size_t s = 0; s < weights.size(); ++s)
      REQUIRE(
          kvpop_test::close(static_cast<double>(weights[s]), expected_weights[s], static_cast<double>(h.q.size()), 30));
  }
}
