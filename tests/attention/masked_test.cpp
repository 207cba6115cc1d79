#include "kvpop/attention/masked.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "support/attention_oracle.hpp"  // attend, close
#include "support/generators.hpp"        // generator, draws
#include "support/golden.hpp"            // tensor
#include "support/message_of.hpp"        // message_of

using kvpop::index_t;
using kvpop_test::generator;
using kvpop_test::message_of;

namespace {

constexpr index_t key_dim = 19, value_dim = 8;

template <class T>
struct inputs {
  index_t sequences = 1, tokens = 0, kv_heads = 1, query_heads = 1;
  std::vector<T> q, k, v;
  std::vector<index_t> deaths;         // [sequences, kv_heads, tokens], or empty
  std::vector<std::int32_t> segments;  // [sequences, tokens], or empty
  kvpop::masked_params params;

  [[nodiscard]] kvpop::chunk_view<const T> rows(const std::vector<T>& x, index_t heads, index_t dim) const {
    return {x.data(), {sequences, tokens, heads, dim}};
  }

  // out, then lse.
  [[nodiscard]] std::pair<std::vector<float>, std::vector<float>> run(const kvpop::host_context& ctx,
                                                                      bool values = true) const {
    std::vector<float> out(static_cast<std::size_t>(sequences * tokens * query_heads * value_dim), -9.0F);
    std::vector<float> lse(static_cast<std::size_t>(sequences * tokens * query_heads), -9.0F);
    kvpop::masked_params p = params;
    p.lse = {lse.data(), {sequences, tokens, query_heads}};
    std::vector<std::byte> memory(
        kvpop::masked_workspace<key_dim, value_dim>(ctx, sequences, tokens, query_heads, kv_heads, p));
    kvpop::chunk_view<float> target;
    if (values) target = {out.data(), {sequences, tokens, query_heads, value_dim}};
    kvpop::masked_attention<key_dim, value_dim>(ctx, rows(q, query_heads, key_dim), rows(k, kv_heads, key_dim),
                                                values ? rows(v, kv_heads, value_dim) : kvpop::chunk_view<const T>(),
                                                target, p, {memory.data(), memory.size()});
    return {out, lse};
  }

  [[nodiscard]] bool sees(index_t b, index_t h, index_t q_at, index_t t) const {
    if (t > q_at) return false;
    if (params.attention.sliding_window > 0 && t <= q_at - params.attention.sliding_window) return false;
    if (!deaths.empty() && q_at >= params.deaths(b, h, t)) return false;
    for (index_t i = t; i < q_at && !segments.empty(); ++i)
      if (params.segments(b, i) != params.segments(b, i + 1)) return false;
    return true;
  }
};

template <class T>
void draw(generator& random, inputs<T>& x) {
  x.sequences = random.integer(1, 2);
  x.tokens = random.pick<index_t>({1, 2, 7, 31, 64, 67});
  x.kv_heads = random.integer(1, 2);
  x.query_heads = x.kv_heads * random.integer(1, 3);
  const auto fill = [&](std::vector<T>& to, index_t count, float spread) {
    for (index_t i = 0; i < count; ++i) to.push_back(kvpop::scalar_traits<T>::from_float(random.normal() * spread));
  };
  fill(x.q, x.sequences * x.tokens * x.query_heads * key_dim, 2.0F);
  fill(x.k, x.sequences * x.tokens * x.kv_heads * key_dim, 1.0F);
  fill(x.v, x.sequences * x.tokens * x.kv_heads * value_dim, 1.0F);
  if (random.chance(0.6)) {
    for (index_t i = 0; i < x.sequences * x.kv_heads * x.tokens; ++i)
      x.deaths.push_back(random.chance(0.4) ? kvpop::never : i % x.tokens + 1 + random.integer(0, 20));
    x.params.deaths = {x.deaths.data(), {x.sequences, x.kv_heads, x.tokens}};
  }
  if (random.chance(0.5)) {
    std::int32_t id = 0;
    for (index_t i = 0; i < x.sequences * x.tokens; ++i) x.segments.push_back(id += random.chance(0.1) ? 1 : 0);
    x.params.segments = {x.segments.data(), {x.sequences, x.tokens}};
  }
  if (random.chance(0.2)) x.params.attention.sliding_window = random.integer(1, 30);
  if (random.chance(0.2)) x.params.attention.soft_cap = 3.0F;
}

TEST_CASE_TEMPLATE("out and LSE are those of masked attention in double, for odd shapes, deaths and segments", T, float,
                   kvpop::bfloat16) {
  generator random(770);
  for (int i = 0; i < kvpop_test::draws(500); ++i) {  // 1,000 over the two types
    inputs<T> x;
    draw(random, x);
    const auto [out, lse] = x.run({});
    const auto only = x.run({}, false);
    REQUIRE(only.second == lse);  // without the values: the same bits
    for (const float untouched : only.first) REQUIRE(untouched == -9.0F);
    for (index_t b = 0; b < x.sequences; ++b) {
      for (index_t h = 0; h < x.query_heads; ++h) {
        const index_t kv = h / (x.query_heads / x.kv_heads);
        kvpop_test::matrix keys, values;
        for (index_t t = 0; t < x.tokens; ++t) {
          keys.push_back(kvpop_test::row_of(x.rows(x.k, x.kv_heads, key_dim).row(b, t, kv), key_dim));
          values.push_back(kvpop_test::row_of(x.rows(x.v, x.kv_heads, value_dim).row(b, t, kv), value_dim));
        }
        for (index_t q = 0; q<x.tokens; q += x.tokens> 8 ? 3 : 1) {
          const auto want = kvpop_test::attend(
              kvpop_test::row_of(x.rows(x.q, x.query_heads, key_dim).row(b, q, h), key_dim), keys, values,
              static_cast<std::size_t>(value_dim), 1 / std::sqrt(static_cast<double>(key_dim)),
              static_cast<double>(x.params.attention.soft_cap), [&](index_t t) { return x.sees(b, kv, q, t); });
          const auto row = static_cast<std::size_t>((b * x.tokens + q) * x.query_heads + h);
          REQUIRE(kvpop_test::close(static_cast<double>(lse[row]), want.lse, 1.0, 20.0));
          for (std::size_t d = 0; d < want.out.size(); ++d)
            REQUIRE(kvpop_test::close(static_cast<double>(out[row * value_dim + d]), want.out[d], 4.0, 20.0));
        }
      }
    }
  }
}

TEST_CASE("threads change no bit, and a fused projection is read in place") {
  generator random(771);
  kvpop::thread_pool pool(3);
  for (int i = 0; i < kvpop_test::draws(60); ++i) {
    inputs<float> x;
    draw(random, x);
    const auto one = x.run({});
    REQUIRE(x.run(pool.context()) == one);
    std::vector<float> fused;  // k and v of a head side by side
    for (index_t r = 0; r < x.sequences * x.tokens * x.kv_heads; ++r) {
      fused.insert(fused.end(), x.k.begin() + r * key_dim, x.k.begin() + (r + 1) * key_dim);
      fused.insert(fused.end(), x.v.begin() + r * value_dim, x.v.begin() + (r + 1) * value_dim);
    }
    const index_t width = key_dim + value_dim;
    const std::array<index_t, 4> strides{x.tokens * x.kv_heads * width, x.kv_heads * width, width, 1};
    std::vector<float> out(one.first.size());
    std::vector<std::byte> memory(
        kvpop::masked_workspace<key_dim, value_dim>({}, x.sequences, x.tokens, x.query_heads, x.kv_heads, x.params));
    kvpop::masked_attention<key_dim, value_dim>(
        {}, x.rows(x.q, x.query_heads, key_dim),
        kvpop::chunk_view<const float>(fused.data(), {x.sequences, x.tokens, x.kv_heads, key_dim}, strides),
        kvpop::chunk_view<const float>(fused.data() + key_dim, {x.sequences, x.tokens, x.kv_heads, value_dim}, strides),
        kvpop::chunk_view<float>(out.data(), {x.sequences, x.tokens, x.query_heads, value_dim}), x.params,
        {memory.data(), memory.size()});
    REQUIRE(out == one.first);
  }
}

// One head dimension for keys and values, as the golden data has it: heads first there, tokens first here.
void check_golden(const std::string& out_name, const std::string& lse_name, bool sparse, bool segments) {
  CAPTURE(out_name);
  constexpr index_t dim = 32;
  const auto q = golden::tensor<double>("attention.q"), k = golden::tensor<double>("attention.k"),
             v = golden::tensor<double>("attention.v");
  const index_t query_heads = q.shape[0], tokens = q.shape[1], kv_heads = k.shape[0];
  const auto fq = q.as_float(), fk = k.as_float(), fv = v.as_float();
  const auto heads_first = [&](const std::vector<float>& x, index_t heads) {
    return kvpop::chunk_view<const float>(x.data(), {1, tokens, heads, dim}, {0, dim, tokens * dim, 1});
  };
  std::vector<float> out(fq.size()), lse(static_cast<std::size_t>(query_heads * tokens));
  kvpop::masked_params params;
  params.lse = {lse.data(), {1, tokens, query_heads}, {0, 1, tokens}};
  std::vector<index_t> deaths;
  std::vector<std::int32_t> ids;
  if (sparse) {
    for (const std::int32_t d : golden::tensor<std::int32_t>("attention.death").values)
      deaths.push_back(d == std::numeric_limits<std::int32_t>::max() ? kvpop::never : d);
    params.deaths = {deaths.data(), {1, kv_heads, tokens}};
  }
  if (segments) {
    ids = golden::tensor<std::int32_t>("attention.segments").values;
    params.segments = {ids.data(), {1, tokens}};
  }
  std::vector<std::byte> memory(kvpop::masked_workspace<dim, dim>({}, 1, tokens, query_heads, kv_heads, params));
  kvpop::masked_attention<dim, dim>(
      {}, heads_first(fq, query_heads), heads_first(fk, kv_heads), heads_first(fv, kv_heads),
      kvpop::chunk_view<float>(out.data(), {1, tokens, query_heads, dim}, {0, dim, tokens * dim, 1}), params,
      {memory.data(), memory.size()});
  const auto want = golden::tensor<double>(out_name), sums = golden::tensor<double>(lse_name);
  double largest = 0;
  for (const double x : want.values) largest = std::fmax(largest, std::fabs(x));
  for (std::size_t i = 0; i < out.size(); ++i)
    REQUIRE(std::abs(static_cast<double>(out[i]) - want.values[i]) <=
            2e-5 * (std::abs(want.values[i]) + 0.02 * largest));
  for (std::size_t i = 0; i < lse.size(); ++i)
    REQUIRE(std::abs(static_cast<double>(lse[i]) - sums.values[i]) <= 2e-5 * std::fmax(std::abs(sums.values[i]), 1e-2));
}

TEST_CASE("dense, segmented and sparse attention of the golden data") {
  check_golden("attention.dense_out", "attention.dense_lse", false, false);
  check_golden("attention.segment_out", "attention.segment_lse", false, true);
  check_golden("attention.sparse_out", "attention.sparse_lse", true, false);
}

TEST_CASE("what does not fit is refused by name, and nothing is written") {
  inputs<float> x;
  x.tokens = 3, x.query_heads = 2;
  x.q.assign(static_cast<std::size_t>(6 * key_dim), 0.0F), x.k.assign(static_cast<std::size_t>(3 * key_dim), 0.0F);
  x.v.assign(static_cast<std::size_t>(3 * value_dim), 0.0F);
  std::vector<float> out(static_cast<std::size_t>(6 * value_dim), -3.0F);
  std::vector<std::byte> memory(kvpop::masked_workspace<key_dim, value_dim>({}, 1, 3, 2, 1));
  const auto run = [&](index_t query_heads, index_t value_tokens, const kvpop::masked_params& params,
                       std::size_t bytes) {
    return message_of([&] {
      kvpop::masked_attention<key_dim, value_dim>(
          {}, x.rows(x.q, query_heads, key_dim), x.rows(x.k, 1, key_dim),
          kvpop::chunk_view<const float>(x.v.data(), {1, value_tokens, 1, value_dim}),
          kvpop::chunk_view<float>(out.data(), {1, 3, 2, value_dim}), params, {memory.data(), bytes});
    });
  };
  CHECK(run(0, 3, {}, memory.size()) ==
        "kvpop: masked_attention: q.extent(head) is 0; it must be a multiple of k.extent(head)");
  CHECK(run(2, 2, {}, memory.size()) == "kvpop: masked_attention: v.extent(token) is 2; expected 3");
  CHECK(run(1, 3, {}, memory.size()) == "kvpop: masked_attention: out.extent(head) is 2; expected 1");
  kvpop::masked_params params;
  const index_t deaths[2] = {};
  params.deaths = {deaths, {1, 1, 3}, {3, 3, 0}};
  CHECK(run(2, 3, params, memory.size()) == "kvpop: masked_attention: deaths.stride(token) is 0; it must be 1");
  params.deaths = {deaths, {1, 1, 2}};
  CHECK(run(2, 3, params, memory.size()) == "kvpop: masked_attention: deaths.extent(token) is 2; k has 3");
  const auto run_on = [&](const kvpop::chunk_view<const float>& q, const kvpop::chunk_view<const float>& v,
                          const kvpop::chunk_view<float>& to) {
    return message_of([&] {
      kvpop::masked_attention<key_dim, value_dim>({}, q, x.rows(x.k, 1, key_dim), v, to, {},
                                                  {memory.data(), memory.size()});
    });
  };
  const auto q = x.rows(x.q, 2, key_dim), v = x.rows(x.v, 1, value_dim);
  const kvpop::chunk_view<float> to(out.data(), {1, 3, 2, value_dim});
  CHECK(run_on({nullptr, q.extents()}, v, to) == "kvpop: masked_attention: q has no data");
  CHECK(run_on(q, {nullptr, v.extents()}, to) == "kvpop: masked_attention: v has no data");
  CHECK(run_on(q, {v.data(), v.extents(), {0, value_dim, value_dim, 2}}, to) ==
        "kvpop: masked_attention: v.stride(dim) is 2; it must be 1");
  CHECK(run_on(q, v, {to.data(), to.extents(), {0, 2, 1, 0}}) ==
        "kvpop: masked_attention: out.stride(dim) is 0; it must be 1");
  CHECK(run(2, 3, {}, 10).substr(0, 54) == "kvpop: masked_attention: workspace.bytes is 10; at lea");
  for (const float value : out) CHECK(value == -3.0F);
}

}  // namespace
