#include "kvpop/train/future_attention.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "support/generators.hpp"  // generator, draws
#include "support/golden.hpp"      // tensor
#include "support/message_of.hpp"  // message_of

using kvpop::index_t;
using kvpop_test::message_of;

namespace {

using targets_view =
    kvpop::view<float, kvpop::host_memory, kvpop::axis::sequence, kvpop::axis::head, kvpop::axis::token>;

template <class R>
void check_golden(const std::string& name, const R& reduce, kvpop::group_aggregate aggregate) {
  CAPTURE(name);
  const auto q = golden::tensor<double>("attention.q"), k = golden::tensor<double>("attention.k"),
             sums = golden::tensor<double>("attention.dense_lse"), want = golden::tensor<double>(name);
  const index_t query_heads = q.shape[0], tokens = q.shape[1], dim = q.shape[2], kv_heads = k.shape[0];
  const auto fq = q.as_float(), fk = k.as_float(), lse = sums.as_float();
  std::vector<float> target(static_cast<std::size_t>(kv_heads * tokens));
  std::vector<std::byte> memory(kvpop::future_workspace({}, 1, tokens, query_heads, kv_heads, dim));
  kvpop::future_params params;
  params.transposed.delay = golden::params()["attention"]["window"];
  params.epsilon = golden::params()["attention"]["eps"];
  params.aggregate = aggregate;
  kvpop::future_attention(
      {}, kvpop::chunk_view<const float>(fq.data(), {1, tokens, query_heads, dim}, {0, dim, tokens * dim, 1}),
      kvpop::chunk_view<const float>(fk.data(), {1, tokens, kv_heads, dim}, {0, dim, tokens * dim, 1}),
      kvpop::chunk_lse_view<const float>(lse.data(), {1, tokens, query_heads}, {0, 1, tokens}), reduce,
      targets_view(target.data(), {1, kv_heads, tokens}), params, {memory.data(), memory.size()});
  for (std::size_t i = 0; i < target.size(); ++i)
    REQUIRE(std::abs(static_cast<double>(target[i]) - want.values[i]) <= 2e-5 * std::abs(want.values[i]));
}

TEST_CASE("attention.target_* of the golden data") {
  check_golden("attention.target_mean_max", kvpop::power_mean(1.0F), kvpop::group_aggregate::max);
  check_golden("attention.target_mean_mean", kvpop::power_mean(1.0F), kvpop::group_aggregate::mean);
  check_golden("attention.target_rms_max", kvpop::power_mean(2.0F), kvpop::group_aggregate::max);
}

TEST_CASE("targets are the logarithm of the masses, joined over each group, for odd shapes and key ranges") {
  kvpop_test::generator random(780);
  kvpop::thread_pool pool(2);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t sequences = random.integer(1, 2), tokens = random.integer(1, 33), kv_heads = random.integer(1, 3);
    const index_t group = random.integer(1, 3), dim = random.integer(1, 9), query_heads = kv_heads * group;
    std::vector<float> q, k, lse;
    for (index_t i = 0; i < sequences * tokens * query_heads * dim; ++i) q.push_back(random.normal());
    for (index_t i = 0; i < sequences * tokens * kv_heads * dim; ++i) k.push_back(random.normal());
    for (index_t i = 0; i < sequences * tokens * query_heads; ++i) lse.push_back(random.normal() + 2.0F);
    const kvpop::chunk_view<const float> queries(q.data(), {sequences, tokens, query_heads, dim});
    const kvpop::chunk_view<const float> keys(k.data(), {sequences, tokens, kv_heads, dim});
    const kvpop::chunk_lse_view<const float> sums(lse.data(), {sequences, tokens, query_heads});
    kvpop::future_params params;
    params.transposed.delay = random.integer(0, 8);
    params.transposed.first_key = random.integer(0, tokens - 1);
    params.aggregate = random.chance(0.5) ? kvpop::group_aggregate::max : kvpop::group_aggregate::mean;
    params.epsilon = random.pick({1e-6, 1e-3});
    const index_t count = tokens - params.transposed.first_key;
    std::vector<float> mass(static_cast<std::size_t>(sequences * query_heads * count));
    std::vector<float> target(static_cast<std::size_t>(sequences * kv_heads * count));
    std::vector<std::byte> memory(
        kvpop::future_workspace(pool.context(), sequences, tokens, query_heads, kv_heads, dim));
    const kvpop::workspace space{memory.data(), memory.size()};
    const targets_view masses(mass.data(), {sequences, query_heads, count});
    const targets_view targets(target.data(), {sequences, kv_heads, count});
    kvpop::transposed_attention({}, queries, keys, sums, kvpop::largest_weight{}, masses, params.transposed, space);
    kvpop::future_attention(pool.context(), queries, keys, sums, kvpop::largest_weight{}, targets, params, space);
    for (index_t b = 0; b < sequences; ++b) {
      for (index_t h = 0; h < kv_heads; ++h) {
        for (index_t t = 0; t < count; ++t) {
          double largest = -std::numeric_limits<double>::infinity(), sum = 0;
          for (index_t g = 0; g < group; ++g) {
            const double x = std::log(params.epsilon + static_cast<double>(masses(b, h * group + g, t)));
            largest = std::fmax(largest, x), sum += x / static_cast<double>(group);
          }
          const double want = params.aggregate == kvpop::group_aggregate::max ? largest : sum;
          REQUIRE(std::abs(static_cast<double>(targets(b, h, t)) - want) <= 1e-6 * std::abs(want) + 1e-7);
        }
      }
    }
  }
}

TEST_CASE("the workspace is linear in the sequence") {
  const auto bytes = [](index_t n) { return kvpop::future_workspace({}, 1, n, 9, 3, 64); };
  CHECK(static_cast<double>(bytes(65536)) <= 2.1 * static_cast<double>(bytes(32768)));
}

TEST_CASE("what does not fit is refused by name") {
  const std::vector<float> x(12), lse(6);
  std::vector<float> target(6, 4.0F);
  std::vector<std::byte> memory(kvpop::future_workspace({}, 1, 3, 2, 1, 2));
  const auto run = [&](double epsilon, index_t heads, index_t keys, std::size_t bytes) {
    kvpop::future_params params;
    params.epsilon = epsilon;
    return message_of([&] {
      kvpop::future_attention({}, kvpop::chunk_view<const float>(x.data(), {1, 3, 2, 2}),
                              kvpop::chunk_view<const float>(x.data(), {1, 3, 1, 2}),
                              kvpop::chunk_lse_view<const float>(lse.data(), {1, 3, 2}), kvpop::weight_sum{},
                              targets_view(target.data(), {1, heads, keys}), params, {memory.data(), bytes});
    });
  };
  const std::string refused = "; it must be finite and greater than 0";
  CHECK(run(0.0, 1, 3, memory.size()) == "kvpop: future_params.epsilon is 0.000000" + refused);
  CHECK(run(-1.0, 1, 3, memory.size()) == "kvpop: future_params.epsilon is -1.000000" + refused);
  CHECK(run(std::numeric_limits<double>::infinity(), 1, 3, memory.size()) ==
        "kvpop: future_params.epsilon is inf" + refused);
  CHECK(run(1e-6, 2, 3, memory.size()) == "kvpop: future_attention: target.extent(head) is 2; k has 1");
  CHECK(run(1e-6, 1, 4, memory.size()) ==
        "kvpop: future_attention: target.extent(token) is 4; it must be at most the tokens");
  const auto no_target = message_of([&] {
    kvpop::future_attention({}, kvpop::chunk_view<const float>(x.data(), {1, 3, 2, 2}),
                            kvpop::chunk_view<const float>(x.data(), {1, 3, 1, 2}),
                            kvpop::chunk_lse_view<const float>(lse.data(), {1, 3, 2}), kvpop::weight_sum{},
                            targets_view(nullptr, {1, 1, 3}), {}, {memory.data(), memory.size()});
  });
  CHECK(no_target == "kvpop: future_attention: target has no data");
  CHECK(run(1e-6, 1, 3, 8).substr(0, 55) == "kvpop: future_attention: workspace.bytes is 8; at least");
  for (const float t : target) CHECK(t == 4.0F);
}

}  // namespace
