#include "kvpop/train/mlstm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kvpop/score/mlstm.hpp"    // mlstm_ref
#include "support/mlstm_pass.hpp"   // mlstm_pass
#include "support/train_cases.hpp"  // normals, golden_block

using kvpop::index_t;
using kvpop::mlstm_sizes;
using kvpop_test::generator;
using kvpop_test::mlstm_pass;

namespace {

template <class T>
void check_golden(const std::string& parameters_of, const std::string& scores, index_t delay) {
  CAPTURE(scores);
  const auto x = golden::tensor<double>("mlstm.x"), r = golden::tensor<double>(scores);
  for (index_t h = 0; h < x.shape[0]; ++h) {
    const auto block = kvpop_test::golden_block(parameters_of + ".param.", kvpop_test::mlstm_names, h);
    const std::vector<T> parameters(block.begin(), block.end());
    const std::vector<T> xs(x.row(h), x.row(h) + x.shape[1] * x.shape[2]);
    mlstm_pass<T> p({x.shape[2], 12, 20}, x.shape[1], delay);
    const auto got = p.forward(parameters, xs);
    for (index_t t = 0; t < x.shape[1]; ++t) {
      const double want = r.row(h)[t], have = static_cast<double>(got[static_cast<std::size_t>(t)]);
      REQUIRE(std::isnan(want) == std::isnan(have));
      if (std::isnan(want)) continue;
      // 5e-7: a score near 0 is a difference of terms of size up to 5.
      REQUIRE(std::abs(have - want) <= (sizeof(T) == 4 ? 2e-5 * std::abs(want) + 5e-7 : 1e-10 * std::abs(want)));
    }
  }
}

TEST_CASE_TEMPLATE("mlstm*.r of the golden data", T, float, double) {
  const index_t window = golden::params()["mlstm"]["window"];
  check_golden<T>("mlstm", "mlstm.r", window);
  check_golden<T>("mlstm", "mlstm.r_undelayed", 0);
  check_golden<T>("mlstm_small", "mlstm_small.r", window);
  check_golden<T>("mlstm_large", "mlstm_large.r", window);
}

TEST_CASE("the chunkwise form gives the scores of the recurrent scorer that decoding runs") {
  generator random(820);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t key_dim = random.integer(1, 9), value_dim = random.integer(1, 9);
    const mlstm_sizes sizes{key_dim + value_dim, random.integer(1, 7), random.integer(1, 7)};
    const index_t tokens = random.pick<index_t>({1, 2, 5, 63, 64, 65, 100, 128, 131});
    const index_t delay = random.pick<index_t>({0, 1, 5, 63, 64, 70, 200});
    auto parameters = kvpop_test::normals<float>(random, sizes.parameters(), random.pick({0.1, 0.4}));
    parameters[static_cast<std::size_t>(sizes.bf())] = static_cast<float>(random.pick({-2.0, 1.0, 5.0}));
    const auto x = kvpop_test::normals<float>(random, tokens * sizes.inputs, 1.0);
    const auto r = mlstm_pass<float>(sizes, tokens, delay).forward(parameters, x);
    const auto scorer = kvpop_test::recurrent(sizes, key_dim, parameters, delay);
    std::vector<float> memory(static_cast<std::size_t>(scorer.memory_size()));
    scorer.reset(memory.data());
    double scale = 1.0;  // of the terms of a score
    for (index_t d = 0; d < sizes.dv; ++d)
      scale += static_cast<double>(std::abs(parameters[static_cast<std::size_t>(sizes.wout() + d)]));
    for (index_t q = 0; q < tokens; ++q) {
      scorer.observe(0, q, x.data() + q * sizes.inputs, memory.data());
      if (q < delay) continue;
      const index_t t = q - delay;
      const double want = static_cast<double>(scorer.score(0, t, x.data() + t * sizes.inputs, memory.data()));
      REQUIRE(std::abs(static_cast<double>(r[static_cast<std::size_t>(t)]) - want) <= 1e-5 * (scale + std::abs(want)));
    }
    for (index_t t = std::max<index_t>(0, tokens - delay); t < tokens; ++t)
      REQUIRE(std::isnan(r[static_cast<std::size_t>(t)]));
  }
}

TEST_CASE("the tape grows with tokens and state / chunk") {
  const mlstm_sizes sizes{128, 32, 32};
  const auto bytes = [&](index_t tokens) {
    kvpop::carver count;
    static_cast<void>(kvpop::mlstm_tape<float>::carve(count, sizes, tokens));
    return static_cast<double>(count.bytes());
  };
  CHECK(bytes(8192) <= 2.0 * bytes(4096));
  // Projections, num and nu, three doubles, and the state once a chunk.
  const double a_token = 4.0 * (131 + 32 + 1) + 24 + 4.0 * (32 * 32 + 32) / kvpop::mlstm_chunk;
  CHECK(bytes(8192) - bytes(4096) == doctest::Approx(4096 * a_token).epsilon(0.01));
}

}  // namespace
