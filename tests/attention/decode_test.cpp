#include "kvpop/attention/decode.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "kvpop/core/buffer.hpp"       // workspaces of an exact size
#include "kvpop/core/thread_pool.hpp"  // thread_pool
#include "support/attention_oracle.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/golden.hpp"

using kvpop::index_t;
using kvpop_test::generator;
using kvpop_test::message_of;

namespace {

template <class T, index_t KeyDim, index_t ValueDim>
struct kind {
  using type = T;
  static constexpr index_t key_dim = KeyDim;
  static constexpr index_t value_dim = ValueDim;
};

using lse_type = kvpop::view<float, kvpop::host_memory, kvpop::axis::sequence, kvpop::axis::head>;
using weights_type =
    kvpop::view<float, kvpop::host_memory, kvpop::axis::sequence, kvpop::axis::head, kvpop::axis::slot>;

// A cache whose slots were filled by hand, queries for it, and room for every result.
template <class Kind, class Q = float, class Out = float>
struct problem {
  using T = typename Kind::type;
  static constexpr index_t key_dim = Kind::key_dim;
  static constexpr index_t value_dim = Kind::value_dim;
  using block_type = kvpop_test::cache_block<T, key_dim, value_dim>;

  problem(index_t sequence_count, index_t kv_head_count, index_t group_size, index_t slot_count)
      : sequences(sequence_count),
        kv_heads(kv_head_count),
        group(group_size),
        slots(slot_count),
        block({sequence_count, kv_head_count, 0, 0}, {0, slot_count, 0}),
        q(size(key_dim)),
        out(size(value_dim)),
        lse(static_cast<std::size_t>(sequences * heads())),
        weights(static_cast<std::size_t>(sequences * kv_heads * slots), -1.0F) {}

  [[nodiscard]] index_t heads() const { return kv_heads * group; }
  [[nodiscard]] std::size_t size(index_t dim) const { return static_cast<std::size_t>(sequences * heads() * dim); }

  void set_held(index_t sequence, index_t head, index_t held) {
    block.ref().arrays().held[sequence * kv_heads + head] = static_cast<std::int32_t>(held);
  }
  T* key(index_t sequence, index_t head, index_t slot) {
    return block.ref().head(sequence, head).keys + slot * key_dim;
  }
  T* value(index_t sequence, index_t head, index_t slot) {
    return block.ref().head(sequence, head).values + slot * value_dim;
  }
  Q* query(index_t sequence, index_t head) { return q.data() + (sequence * heads() + head) * key_dim; }
  const Out* output(index_t sequence, index_t head) const {
    return out.data() + (sequence * heads() + head) * value_dim;
  }
  float lse_of(index_t sequence, index_t head) const {
    return lse[static_cast<std::size_t>(sequence * heads() + head)];
  }
  float weight_of(index_t sequence, index_t head, index_t slot) const {
    return weights[static_cast<std::size_t>((sequence * kv_heads + head) * slots + slot)];
  }

  // Normal keys, values and queries; positions in random order below `seen`.
  void fill(generator& random, double query_size) {
    const auto arrays = block.ref().arrays();
    for (index_t i = 0; i < sequences * kv_heads * slots * key_dim; ++i) {
      arrays.keys[i] = kvpop::scalar_traits<T>::from_float(random.normal());
    }
    for (index_t i = 0; i < sequences * kv_heads * slots * value_dim; ++i) {
      arrays.values[i] = kvpop::scalar_traits<T>::from_float(random.normal());
    }
    for (Q& x : q) x = kvpop::scalar_traits<Q>::from_float(static_cast<float>(query_size) * random.normal());
  }

  void run(const kvpop::host_context& ctx, const kvpop::attention_params& params = {},
           const kvpop::workspace& scratch = {}) {
    const kvpop::step_view<const Q> q_view(q.data(), {sequences, heads(), key_dim});
    const kvpop::step_view<Out> out_view(out.data(), {sequences, heads(), value_dim});
    kvpop::decode_attention(
        ctx, q_view, block.ref(), out_view, params,
        {lse_type(lse.data(), {sequences, heads()}), weights_type(weights.data(), {sequences, kv_heads, slots})},
        scratch);
  }

  index_t sequences, kv_heads, group, slots;
  block_type block;
  std::vector<Q> q;
  std::vector<Out> out;
  std::vector<float> lse;
  std::vector<float> weights;
};

template <class V>
bool same_bytes(const V& a, const V& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(a[0])) == 0;
}

// Compares every result of a problem with the oracle; the number of differences.
template <class Kind, class Q, class Out>
int count_wrong(problem<Kind, Q, Out>& p, const kvpop::attention_params& params, double out_unit) {
  int wrong = 0;
  const double scale = params.scale != 0 ? static_cast<double>(params.scale) : 1.0 / std::sqrt(double{Kind::key_dim});
  for (index_t s = 0; s < p.sequences; ++s) {
    const index_t newest = p.block.ref().seen(s) - 1;
    for (index_t h = 0; h < p.kv_heads; ++h) {
      const auto head = p.block.ref().head(s, h);
      const index_t held = *head.held;
      const kvpop_test::matrix k = kvpop_test::rows_of(head.keys, held, Kind::key_dim);
      const kvpop_test::matrix v = kvpop_test::rows_of(head.values, held, Kind::value_dim);
      std::vector<double> mean(static_cast<std::size_t>(p.slots), 0.0);
      double largest_logit = 0;
      for (index_t g = 0; g < p.group; ++g) {
        const std::vector<double> q = kvpop_test::row_of(p.query(s, h * p.group + g), Kind::key_dim);
        for (const auto& row : k) {
          double size = 0;
          for (std::size_t d = 0; d < q.size(); ++d) size += std::fabs(q[d] * row[d]);
          largest_logit = std::fmax(largest_logit, size * scale);
        }
        const auto answer =
            kvpop_test::attend(q, k, v, Kind::value_dim, scale, static_cast<double>(params.soft_cap), [&](index_t i) {
              return params.sliding_window == 0 || head.positions[i] > newest - params.sliding_window;
            });
        for (index_t d = 0; d < Kind::value_dim; ++d) {
          const double got = static_cast<double>(static_cast<float>(p.output(s, h * p.group + g)[d]));
          const double want = answer.out[static_cast<std::size_t>(d)];
          wrong +=
              !kvpop_test::close(got, want, 4.0, largest_logit) && std::fabs(got - want) > out_unit * std::fabs(want);
        }
        wrong += !kvpop_test::close(static_cast<double>(p.lse_of(s, h * p.group + g)), answer.lse, 1.0, largest_logit);
        for (index_t i = 0; i < held; ++i) {
          mean[static_cast<std::size_t>(i)] +=
              answer.weights[static_cast<std::size_t>(i)] / static_cast<double>(p.group);
        }
      }
      for (index_t i = 0; i < p.slots; ++i) {
        const double want = mean[static_cast<std::size_t>(i)];
        wrong += !kvpop_test::close(static_cast<double>(p.weight_of(s, h, i)), want, 1.0, largest_logit);
        wrong += i >= held && p.weight_of(s, h, i) != 0.0F;
      }
    }
  }
  return wrong;
}

template <class Kind, class Q, class Out>
void random_problems(int count, std::uint64_t stream, double out_unit) {
  generator random(stream);
  kvpop::thread_pool two(2);
  kvpop::thread_pool three(3);
  kvpop::thread_pool seven(7);
  const kvpop::host_context contexts[4] = {{}, two.context(), three.context(), seven.context()};
  for (int draw = 0; draw < count; ++draw) {
    const index_t slots =
        random.pick<index_t>({1, 2, 7, 15, 16, 17, 63, 64, 65, 97, 255, 256, 257, 263, 511, 513, 601});
    const index_t group = random.chance(0.2) ? random.integer(1, 37) : random.integer(1, 6);
    problem<Kind, Q, Out> p(random.integer(1, 3), random.integer(1, 3), group, slots);
    p.fill(random, random.pick({0.3, 1.0, 4.0}));
    for (index_t s = 0; s < p.sequences; ++s) {
      p.block.ref().arrays().seen[s] = slots + random.integer(0, 50);
      for (index_t h = 0; h < p.kv_heads; ++h) {
        p.set_held(s, h, random.chance(0.1) ? 0 : random.chance(0.5) ? slots : random.integer(0, slots));
        for (index_t i = 0; i < slots; ++i) {
          p.block.ref().head(s, h).positions[i] = random.integer(0, p.block.ref().seen(s) - 1);
        }
      }
    }
    kvpop::attention_params params;
    if (random.chance(0.3)) params.scale = 0.21F;
    if (random.chance(0.3)) params.soft_cap = 5.0F;
    if (random.chance(0.4)) params.sliding_window = random.integer(1, slots + 60);
    p.run({}, params);
    CHECK(count_wrong(p, params, out_unit) == 0);

    // Neither threads nor a workspace change a bit.
    const auto out = p.out;
    const auto lse = p.lse;
    const auto weights = p.weights;
    const auto bytes = kvpop::decode_workspace(p.block.ref(), p.heads());
    kvpop::buffer<std::byte> memory(static_cast<index_t>(bytes));
    for (const kvpop::host_context& ctx : contexts) {
      for (const bool with_workspace : {false, true}) {
        std::fill(p.weights.begin(), p.weights.end(), -1.0F);
        p.run(ctx, params, with_workspace ? kvpop::workspace{memory.data(), memory.bytes()} : kvpop::workspace{});
        CHECK(same_bytes(p.out, out));
        CHECK(same_bytes(p.lse, lse));
        CHECK(same_bytes(p.weights, weights));
      }
    }
  }
}

#ifdef KVPOP_SANITIZED  // the others take a sanitizer's compiler five minutes
using needle_kinds = std::tuple<kind<float, 7, 5>, kind<kvpop::bfloat16, 24, 96>>;
#else
using needle_kinds = std::tuple<kind<float, 7, 5>, kind<kvpop::bfloat16, 24, 96>, kind<float, 128, 128>,
                                kind<kvpop::float16, 33, 16>, kind<kvpop::bfloat16, 128, 128>>;
#endif

}  // namespace

TEST_CASE("decode attention is softmax over the held slots, for any shape, threads and workspace") {
  const auto n = [](int share) { return kvpop_test::draws(share); };
  random_problems<kind<float, 7, 5>, float, float>(n(150), 2, 0);
  random_problems<kind<kvpop::float16, 33, 16>, float, float>(n(150), 4, 0);
  random_problems<kind<kvpop::bfloat16, 24, 96>, kvpop::bfloat16, float>(n(150), 6, 0);
  random_problems<kind<float, 1, 1>, float, float>(n(120), 8, 0);
#ifndef KVPOP_SANITIZED
  random_problems<kind<float, 128, 128>, float, float>(n(130), 1, 0);
  random_problems<kind<float, 8, 256>, float, kvpop::bfloat16>(n(120), 3, 0x1p-8);
  random_problems<kind<kvpop::float16, 96, 128>, kvpop::float16, kvpop::float16>(n(130), 5, 0x1p-11);
  random_problems<kind<kvpop::bfloat16, 128, 128>, float, float>(n(150), 7, 0);
#endif
}

// All keys are zero but one, so all weight is on it, and its value spells its slot: a slot that is lost, doubled or
// mixed up with another shows whole.
TEST_CASE_TEMPLATE_DEFINE("a needle in every slot, for every query head", Kind, needle) {
  using T = typename Kind::type;
  constexpr index_t slots = 256 + 64 + 7;
  constexpr index_t group = 5;
  problem<Kind> p(1, 2, group, slots);
  const auto spelled = [](index_t slot, index_t head, index_t d) {
    return static_cast<float>(d % 3 == 0 ? slot % 128 : d % 3 == 1 ? slot / 128 : head + 1);
  };
  p.block.ref().arrays().seen[0] = slots;
  for (index_t h = 0; h < 2; ++h) {
    p.set_held(0, h, slots);
    std::fill_n(p.key(0, h, 0), slots * Kind::key_dim, kvpop::scalar_traits<T>::from_float(0.0F));
    for (index_t i = 0; i < slots; ++i) {
      for (index_t d = 0; d < Kind::value_dim; ++d) {
        p.value(0, h, i)[d] = kvpop::scalar_traits<T>::from_float(spelled(i, h, d));
      }
    }
  }
  // Query head g looks along axis g + h, where only its own needle has anything.
  for (index_t h = 0; h < 2; ++h) {
    for (index_t g = 0; g < group; ++g) {
      std::fill_n(p.query(0, h * group + g), Kind::key_dim, 0.0F);
      p.query(0, h * group + g)[(g * 3 + h) % Kind::key_dim] = 64.0F;
    }
  }
  const auto place = [&](index_t slot, index_t g) { return (slot + g * 71) % slots; };
  kvpop::attention_params params;
  params.scale = 1.0F;
  int wrong = 0;
  for (index_t slot = 0; slot < slots; ++slot) {
    for (index_t h = 0; h < 2; ++h) {
      for (index_t g = 0; g < group; ++g) {
        p.key(0, h, place(slot, g))[(g * 3 + h) % Kind::key_dim] = kvpop::scalar_traits<T>::from_float(4.0F);
      }
    }
    p.run({}, params);
    for (index_t h = 0; h < 2; ++h) {
      for (index_t g = 0; g < group; ++g) {
        const index_t needle = place(slot, g);
        for (index_t d = 0; d < Kind::value_dim; ++d) wrong += p.output(0, h * group + g)[d] != spelled(needle, h, d);
        wrong += p.lse_of(0, h * group + g) != 256.0F;
        wrong += std::fabs(p.weight_of(0, h, needle) - 1.0F / group) > 1e-6F;
        p.key(0, h, needle)[(g * 3 + h) % Kind::key_dim] = kvpop::scalar_traits<T>::from_float(0.0F);
      }
    }
  }
  CHECK(wrong == 0);
}
TEST_CASE_TEMPLATE_APPLY(needle, needle_kinds);

TEST_CASE("every group size from 1 to 16 and beyond gives each query head its own result") {
  for (index_t group = 1; group <= 40; ++group) {
    generator random(100 + static_cast<std::uint64_t>(group));
    problem<kind<float, 16, 16>> p(1, 2, group, 37);
    p.fill(random, 1.0);
    p.block.ref().arrays().seen[0] = 37;
    p.set_held(0, 0, 37);
    p.set_held(0, 1, 21);
    p.run({});
    CHECK(count_wrong(p, {}, 0) == 0);
    // and the bits that it would have alone
    problem<kind<float, 16, 16>> one(1, 2, 1, 37);
    for (index_t g = 0; g < group; ++g) {
      for (index_t h = 0; h < 2; ++h) {
        std::copy_n(p.key(0, h, 0), 37 * 16, one.key(0, h, 0));
        std::copy_n(p.value(0, h, 0), 37 * 16, one.value(0, h, 0));
        std::copy_n(p.query(0, h * group + g), 16, one.query(0, h));
        one.set_held(0, h, p.block.ref().held(0, h));
      }
      one.run({});
      for (index_t h = 0; h < 2; ++h) {
        CHECK(std::memcmp(one.output(0, h), p.output(0, h * group + g), 16 * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("strided queries and outputs: a fused projection is read and written in place") {
  generator random(55);
  problem<kind<float, 16, 24>> p(2, 2, 3, 50);
  p.fill(random, 1.0);
  for (index_t s = 0; s < 2; ++s) {
    p.block.ref().arrays().seen[s] = 50;
    for (index_t h = 0; h < 2; ++h) p.set_held(s, h, 50 - h);
  }
  p.run({});
  std::vector<float> fused(2 * 400, 99.0F);
  std::vector<float> results(2 * 500, 77.0F);
  for (index_t s = 0; s < 2; ++s) {
    for (index_t h = 0; h < 6; ++h) std::copy_n(p.query(s, h), 16, fused.data() + s * 400 + h * 21 + 5);
  }
  kvpop::decode_attention(kvpop::host_context(), kvpop::step_view<float>(fused.data() + 5, {2, 6, 16}, {400, 21, 1}),
                          p.block.ref(), kvpop::step_view<float>(results.data() + 3, {2, 6, 24}, {500, 25, 1}));
  std::vector<float> expected(2 * 500, 77.0F);
  for (index_t s = 0; s < 2; ++s) {
    for (index_t h = 0; h < 6; ++h) std::copy_n(p.output(s, h), 24, expected.data() + 3 + s * 500 + h * 25);
  }
  CHECK(same_bytes(results, expected));
}

TEST_CASE("a head that holds nothing, or nothing visible, gives zeros and -infinity") {
  generator random(56);
  problem<kind<kvpop::bfloat16, 32, 32>> p(2, 1, 3, 20);
  p.fill(random, 1.0);
  p.block.ref().arrays().seen[0] = 0;
  p.block.ref().arrays().seen[1] = 1000;
  p.set_held(0, 0, 0);
  p.set_held(1, 0, 20);
  for (index_t i = 0; i < 20; ++i) p.block.ref().head(1, 0).positions[i] = i;
  kvpop::attention_params params;
  params.sliding_window = 900;  // positions from 100 on
  p.run({}, params);
  for (index_t s = 0; s < 2; ++s) {
    for (index_t h = 0; h < 3; ++h) {
      for (index_t d = 0; d < 32; ++d) CHECK(p.output(s, h)[d] == 0.0F);
      CHECK(kvpop::is_no_logit(p.lse_of(s, h)));
    }
    for (index_t i = 0; i < 20; ++i) CHECK(p.weight_of(s, 0, i) == 0.0F);
  }
  p.block.ref().head(1, 0).positions[19] = 100;  // exactly one visible
  p.run({}, params);
  for (index_t h = 0; h < 3; ++h) {
    for (index_t d = 0; d < 32; ++d) CHECK(p.output(1, h)[d] == static_cast<float>(p.value(1, 0, 19)[d]));
  }
  p.block.ref().head(1, 0).positions[19] = 99;
  p.run({}, params);
  CHECK(kvpop::is_no_logit(p.lse_of(1, 0)));
}

TEST_CASE("logits of 10,000 and more: no overflow, and the largest wins") {
  problem<kind<float, 4, 2>> p(1, 1, 2, 300);
  p.block.ref().arrays().seen[0] = 300;
  p.set_held(0, 0, 300);
  for (index_t i = 0; i < 300; ++i) {
    for (index_t d = 0; d < 4; ++d) p.key(0, 0, i)[d] = d == 0 ? static_cast<float>(i) : 0.0F;
    p.value(0, 0, i)[0] = static_cast<float>(i);
    p.value(0, 0, i)[1] = -1.0F;
  }
  p.query(0, 0)[0] = 1e4F;
  p.query(0, 1)[0] = -1e4F;
  kvpop::attention_params params;
  params.scale = 1.0F;
  p.run({}, params);
  CHECK(p.output(0, 0)[0] == 299.0F);
  CHECK(p.output(0, 1)[0] == 0.0F);
  CHECK(p.output(0, 0)[1] == -1.0F);
  CHECK(p.lse_of(0, 0) == 299e4F);
  CHECK(p.lse_of(0, 1) == 0.0F);
}

TEST_CASE("a NaN in one key reaches the query heads that read it, and no others") {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    generator random(57);
    problem<kind<float, 16, 16>> p(2, 3, 2, 300);
    p.fill(random, 1.0);
    for (index_t s = 0; s < 2; ++s) {
      p.block.ref().arrays().seen[s] = 300;
      for (index_t h = 0; h < 3; ++h) p.set_held(s, h, 300);
    }
    p.run({});
    const auto clean = p.out;
    p.key(1, 2, 123)[5] = poison;
    p.run({});
    for (index_t s = 0; s < 2; ++s) {
      for (index_t h = 0; h < 6; ++h) {
        const auto at = static_cast<std::size_t>((s * 6 + h) * 16);
        if (s == 1 && h / 2 == 2) {
          const bool lost = std::isnan(p.out[at]) || std::isnan(p.lse_of(s, h)) || poison > 0;
          CHECK(lost);
          if (std::isnan(poison)) CHECK(std::isnan(p.out[at + 15]));
        } else {
          CHECK(std::memcmp(p.out.data() + at, clean.data() + at, 16 * sizeof(float)) == 0);
        }
      }
    }
  }
}

TEST_CASE("golden: dense and sparse attention of method.safetensors, query by query") {
  const auto q = golden::tensor<double>("attention.q");  // [query_heads, tokens, dim]
  const auto k = golden::tensor<double>("attention.k");  // [kv_heads, tokens, dim]
  const auto v = golden::tensor<double>("attention.v");  // [kv_heads, tokens, dim]
  const auto death = golden::tensor<std::int32_t>("attention.death");
  REQUIRE(q.shape == std::vector<std::int64_t>{6, 150, 32});
  REQUIRE(k.shape == std::vector<std::int64_t>{2, 150, 32});
  kvpop::attention_params params;
  params.scale = golden::params()["attention"]["scale"].get<float>();
  for (const std::string form : {"dense", "sparse"}) {
    const auto out = golden::tensor<double>("attention." + form + "_out");
    const auto lse = golden::tensor<double>("attention." + form + "_lse");
    double worst_out = 0;
    double worst_lse = 0;
    for (index_t t = 0; t < 150; ++t) {
      problem<kind<float, 32, 32>> p(1, 2, 3, 150);
      p.block.ref().arrays().seen[0] = t + 1;
      for (index_t h = 0; h < 2; ++h) {
        index_t held = 0;
        for (index_t i = 0; i <= t; ++i) {
          if (form == "sparse" && t >= death.row(h)[i] && death.row(h)[i] >= 0) continue;
          for (index_t d = 0; d < 32; ++d) {
            p.key(0, h, held)[d] = static_cast<float>(k.row(h)[i * 32 + d]);
            p.value(0, h, held)[d] = static_cast<float>(v.row(h)[i * 32 + d]);
          }
          ++held;
        }
        p.set_held(0, h, held);
      }
      for (index_t h = 0; h < 6; ++h) {
        for (index_t d = 0; d < 32; ++d) p.query(0, h)[d] = static_cast<float>(q.row(h)[t * 32 + d]);
      }
      p.run({}, params);
      for (index_t h = 0; h < 6; ++h) {
        double size = 0;
        for (index_t d = 0; d < 32; ++d) size = std::fmax(size, std::fabs(out.row(h)[t * 32 + d]));
        for (index_t d = 0; d < 32; ++d) {
          const double got = static_cast<double>(p.output(0, h)[d]);
          worst_out = std::fmax(worst_out, std::fabs(got - out.row(h)[t * 32 + d]) / size);
        }
        const double want = lse.row(h)[t];
        worst_lse = std::fmax(worst_lse,
                              std::fabs(static_cast<double>(p.lse_of(0, h)) - want) / std::fmax(1.0, std::fabs(want)));
      }
    }
    CHECK(worst_out < 2e-5);
    CHECK(worst_lse < 2e-5);
  }
}

TEST_CASE("bad arguments are refused by name before anything is written") {
  problem<kind<float, 8, 4>> p(2, 3, 2, 10);
  const std::vector<float> before = p.out;
  const auto call = [&](kvpop::step_view<float> q, kvpop::step_view<float> out, kvpop::attention_outputs outputs = {},
                        kvpop::attention_params params = {}, kvpop::workspace scratch = {}) {
    return message_of(
        [&] { kvpop::decode_attention(kvpop::host_context(), q, p.block.ref(), out, params, outputs, scratch); });
  };
  const kvpop::step_view<float> q(p.q.data(), {2, 6, 8});
  const kvpop::step_view<float> out(p.out.data(), {2, 6, 4});
  CHECK(call({p.q.data(), {1, 6, 8}}, out) == "kvpop: decode_attention: q.extent(sequence) is 1; the cache has 2");
  CHECK(call({p.q.data(), {2, 4, 8}}, out) ==
        "kvpop: decode_attention: q.extent(head) is 4; it must be a positive multiple of the cache's KV heads");
  CHECK(call({p.q.data(), {2, 0, 8}}, out).find("q.extent(head) is 0") != std::string::npos);
  CHECK(call({p.q.data(), {2, 6, 7}}, out) == "kvpop: decode_attention: q.extent(dim) is 7; the cache has 8");
  CHECK(call(q, {p.out.data(), {1, 6, 4}}).find("out.extent(sequence) is 1") != std::string::npos);
  CHECK(call(q, {p.out.data(), {2, 3, 4}}).find("out.extent(head) is 3; q has 6") != std::string::npos);
  CHECK(call(q, {p.out.data(), {2, 6, 8}}).find("out.extent(dim) is 8; the cache has 4") != std::string::npos);
  CHECK(call(q, out, {lse_type(p.lse.data(), {2, 5}), {}}).find("lse.extent(head) is 5; q has 6") != std::string::npos);
  CHECK(call(q, out, {lse_type(p.lse.data(), {3, 6}), {}}).find("lse.extent(sequence) is 3") != std::string::npos);
  CHECK(call(q, out, {{}, weights_type(p.weights.data(), {1, 3, 10})}).find("weights.extent(sequence) is 1") !=
        std::string::npos);
  CHECK(call(q, out, {{}, weights_type(p.weights.data(), {2, 6, 10})}).find("weights.extent(head) is 6") !=
        std::string::npos);
  CHECK(call(q, out, {{}, weights_type(p.weights.data(), {2, 3, 9})})
            .find("weights.extent(slot) is 9; the cache has 10") != std::string::npos);
  CHECK(call({p.q.data(), {2, 6, 8}, {48, 8, 2}}, out) == "kvpop: decode_attention: q.stride(dim) is 2; it must be 1");
  CHECK(call({nullptr, {2, 6, 8}}, out) == "kvpop: decode_attention: q has no data");
  CHECK(call(q, {p.out.data(), {2, 6, 4}, {24, 4, -1}}) ==
        "kvpop: decode_attention: out.stride(dim) is -1; it must be 1");
  CHECK(call(q, {nullptr, {2, 6, 4}}) == "kvpop: decode_attention: out has no data");
  CHECK(call(q, out, {{}, weights_type(p.weights.data(), {2, 3, 10}, {30, 10, 0})}) ==
        "kvpop: decode_attention: weights.stride(slot) is 0; it must be 1");
  kvpop::attention_params params;
  params.sliding_window = -3;
  CHECK(call(q, out, {}, params).find("attention_params.sliding_window is -3") != std::string::npos);
  std::vector<std::byte> small(64);
  CHECK(call(q, out, {}, {}, {small.data(), small.size()}).find("decode_attention: workspace.bytes is 64; at least ") !=
        std::string::npos);
  CHECK(call(q, out, {}, {}, {nullptr, 1 << 20}) ==
        "kvpop: decode_attention: workspace.data is null; workspace.bytes is 1048576");
  CHECK(same_bytes(p.out, before));
}
