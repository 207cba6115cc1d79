#include "kvpop/attention/prefill_head.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "support/attention_oracle.hpp"  // attend, close
#include "support/generators.hpp"        // generator, draws

// One head's prefill on plain pointers: masked attention in double, the number of visited tiles counted from the words
// of the docstring, and a needle at every tile edge.

using kvpop::index_t;
using kvpop_test::generator;
using kvpop_test::matrix;

namespace {

constexpr index_t key_dim = 7;
constexpr index_t value_dim = 5;

struct keys {
  std::vector<float> k, v;
  std::vector<index_t> position, death;

  [[nodiscard]] index_t count() const { return static_cast<index_t>(position.size()); }
  [[nodiscard]] kvpop::key_segment<float> segment(bool mortal) const {
    return {k.data(), v.data(), position.data(), mortal ? death.data() : nullptr, count()};
  }
};

keys draw_keys(generator& random, index_t count, index_t last_position) {
  keys result;
  for (index_t i = 0; i < count; ++i) {
    for (index_t d = 0; d < key_dim; ++d) result.k.push_back(random.normal());
    for (index_t d = 0; d < value_dim; ++d) result.v.push_back(random.normal());
    result.position.push_back(random.integer(0, last_position));
    result.death.push_back(random.chance(0.3) ? kvpop::never : result.position.back() + random.integer(1, 90));
  }
  return result;
}

// The queries of one call and what it wrote.
struct call {
  index_t tokens, group, first;
  std::vector<float> q, out, lse;
  std::vector<std::byte> memory;

  call(generator& random, index_t tokens_, index_t group_, index_t first_)
      : tokens(tokens_), group(group_), first(first_), lse(static_cast<std::size_t>(tokens_ * group_)) {
    for (index_t i = 0; i < tokens * group * key_dim; ++i) q.push_back(random.normal());
    out.resize(static_cast<std::size_t>(tokens * group * value_dim));
  }

  index_t run(const std::vector<kvpop::key_segment<float>>& segments, const kvpop::attention_params& params) {
    using scratch = kvpop::prefill_scratch<key_dim, value_dim>;
    kvpop::carver count;
    static_cast<void>(scratch::carve(count, group));
    memory.resize(count.bytes());
    kvpop::carver carve(kvpop::workspace{memory.data(), memory.size()}, "test");
    const kvpop::prefill_rows<float, float> rows{{q.data(), {tokens, group, key_dim}},
                                                 {out.data(), {tokens, group, value_dim}},
                                                 {lse.data(), {tokens, group}},
                                                 first};
    return kvpop::prefill_head(segments.data(), static_cast<int>(segments.size()), rows, params,
                               scratch::carve(carve, group));
  }
};

bool sees(index_t query, index_t position, index_t death, index_t window) {
  return position <= query && query < death && (window == 0 || position > query - window);
}

}  // namespace

TEST_CASE("prefill_head is attention under the keep predicate, and visits the tiles that somebody sees") {
  for (int i = 0; i < kvpop_test::draws(300); ++i) {
    generator random(4'200'000 + static_cast<std::uint64_t>(i));
    const index_t first = random.integer(0, 100);
    call c(random, random.pick<index_t>({1, 2, 63, 64, 65, 130}), random.integer(1, 3), first);
    const keys held = draw_keys(random, random.pick<index_t>({0, 1, 63, 64, 65, 129}), first + c.tokens);
    const keys chunk = draw_keys(random, random.integer(1, 70), first + c.tokens);
    const bool mortal = random.chance(0.8);
    kvpop::attention_params params;
    params.sliding_window = random.chance(0.3) ? random.integer(1, 60) : 0;
    params.soft_cap = random.chance(0.3) ? 2.0F : 0.0F;
    const std::vector<kvpop::key_segment<float>> segments{held.segment(mortal), chunk.segment(true)};
    const index_t visited = c.run(segments, params);

    matrix k = kvpop_test::rows_of(held.k.data(), held.count(), key_dim),
           v = kvpop_test::rows_of(held.v.data(), held.count(), value_dim);
    for (auto& row : kvpop_test::rows_of(chunk.k.data(), chunk.count(), key_dim)) k.push_back(row);
    for (auto& row : kvpop_test::rows_of(chunk.v.data(), chunk.count(), value_dim)) v.push_back(row);
    std::set<std::vector<index_t>> tiles;
    for (index_t t = 0; t < c.tokens; ++t) {
      const auto visible = [&](std::int64_t key) {
        const bool in_held = key < held.count();
        const keys& from = in_held ? held : chunk;
        const auto at = static_cast<std::size_t>(in_held ? key : key - held.count());
        const index_t death = in_held && !mortal ? kvpop::never : from.death[at];
        const bool yes = sees(first + t, from.position[at], death, params.sliding_window);
        if (yes) tiles.insert({t / 64, in_held ? 0 : 1, static_cast<index_t>(at) / 64});
        return yes;
      };
      for (index_t g = 0; g < c.group; ++g) {
        const auto row = static_cast<std::size_t>(t * c.group + g);
        const auto expected = kvpop_test::attend(kvpop_test::row_of(&c.q[row * key_dim], key_dim), k, v, value_dim,
                                                 1 / std::sqrt(static_cast<double>(key_dim)),
                                                 static_cast<double>(params.soft_cap), visible);
        for (index_t d = 0; d < value_dim; ++d)
          REQUIRE(kvpop_test::close(static_cast<double>(c.out[row * value_dim + static_cast<std::size_t>(d)]),
                                    expected.out[static_cast<std::size_t>(d)], 5, 20));
        REQUIRE(kvpop_test::close(static_cast<double>(c.lse[row]), expected.lse, 1, 20));
      }
    }
    REQUIRE(visited == static_cast<index_t>(tiles.size()));
  }
}

TEST_CASE("a needle at every key, on both sides of every tile edge, and no key is seen after its death") {
  generator random(4'300'000);
  keys all = draw_keys(random, 130, 0);
  std::fill(all.k.begin(), all.k.end(), 0.0F);
  for (index_t i = 0; i < 130; ++i) {
    all.position[static_cast<std::size_t>(i)] = i;
    all.death[static_cast<std::size_t>(i)] = i + 40;
    for (index_t d = 0; d < value_dim; ++d)
      all.v[static_cast<std::size_t>(i * value_dim + d)] = static_cast<float>(i + d);
  }
  for (index_t needle = 0; needle < 130; ++needle) {
    all.k[static_cast<std::size_t>(needle * key_dim)] = 1.0F;
    call c(random, 130, 1, 0);
    for (std::size_t t = 0; t < 130; ++t) c.q[t * key_dim] = 1000.0F;
    c.run({all.segment(true)}, {});
    for (index_t t = 0; t < 130; ++t) {
      const bool found = c.out[static_cast<std::size_t>(t * value_dim)] == static_cast<float>(needle) &&
                         c.out[static_cast<std::size_t>(t * value_dim + 4)] == static_cast<float>(needle + 4);
      const bool visible = t >= needle && t < needle + 40;
      if (visible) REQUIRE(found);
      if (!visible && c.lse[static_cast<std::size_t>(t)] > 100.0F) FAIL("a dead or unborn key was seen");
    }
    all.k[static_cast<std::size_t>(needle * key_dim)] = 0.0F;
  }
}
