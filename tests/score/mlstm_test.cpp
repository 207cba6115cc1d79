#include "kvpop/score/mlstm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "support/scorer_cases.hpp"

namespace {

using kvpop::mlstm_parameters;
using kvpop::mlstm_ref;
using kvpop_test::generator;
using kvpop_test::mlstm_case;
using kvpop_test::numbers;
using kvpop_test::run_scorer;

const float nan_value = std::bit_cast<float>(0x7fc00000U);

numbers memory_of(const mlstm_ref& scorer) {
  numbers memory(static_cast<std::size_t>(scorer.memory_size()), 3.0F);
  scorer.reset(memory.data());
  return memory;
}

void check_golden(const std::string& parameters, const std::string& scores, std::int64_t delay) {
  CAPTURE(scores);
  const mlstm_case c = mlstm_case::golden_case(parameters);
  const mlstm_ref scorer = c.ref(delay);
  const auto r = golden::tensor<double>(scores);
  const numbers x = golden::tensor<double>("mlstm.x").as_float();
  const std::int64_t tokens = r.shape[1];
  for (std::int64_t h = 0; h < r.shape[0]; ++h) {
    numbers memory = memory_of(scorer);
    const numbers got =
        run_scorer(scorer, h, x.data() + h * tokens * c.input.size(), c.input.size(), tokens, memory.data());
    for (std::int64_t t = 0; t < tokens; ++t) {
      const double want = r.row(h)[t];
      const auto mine = static_cast<double>(got[static_cast<std::size_t>(t)]);
      REQUIRE(std::isnan(mine) == (t + delay >= tokens));
      REQUIRE(std::isnan(want) == std::isnan(mine));
      if (!std::isnan(want)) {
        REQUIRE(std::abs(mine - want) <= 2e-5 * std::abs(want));
      }
    }
  }
}

TEST_CASE("mLSTM scores of the golden data") {
  const auto window = golden::params().at("mlstm").at("window").get<std::int64_t>();
  check_golden("mlstm", "mlstm.r", window);
  check_golden("mlstm", "mlstm.r_undelayed", 0);
  check_golden("mlstm_small", "mlstm_small.r", window);
  check_golden("mlstm_large", "mlstm_large.r", window);
}

TEST_CASE("scores equal those of plain loops in double, for odd and prime sizes") {
  generator random(310);
  double worst = 0.0;
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const kvpop::scorer_input input{1, random.integer(1, 130), random.integer(1, 130)};
    const mlstm_case c = mlstm_case::random(random, input, random.integer(1, 23), random.integer(1, 19));
    const std::int64_t tokens = random.integer(1, 20);
    const std::int64_t delay = random.integer(0, 6);
    const mlstm_ref scorer = c.ref(delay);
    const numbers x = kvpop_test::draw(random, tokens * input.size(), std::exp(random.uniform() * 2 - 1));
    numbers memory = memory_of(scorer);
    const numbers got = run_scorer(scorer, 0, x.data(), input.size(), tokens, memory.data());
    const std::vector<double> want = c.oracle(0, x.data(), tokens, delay);
    for (std::size_t t = 0; t + static_cast<std::size_t>(delay) < want.size(); ++t) {
      worst = std::max(worst, std::abs(static_cast<double>(got[t]) - want[t]) / std::max(1.0, std::abs(want[t])));
    }
  }
  // The RMS norm magnifies what float memory lost where C u nearly cancels; 0.01 would be another formula.
  CHECK(worst < 1e-3);
}

TEST_CASE("a long sequence with strong gates stays near double") {
  generator random(311);
  mlstm_case c = mlstm_case::random(random, {1, 16, 16}, 12, 20);
  for (float& w : c.wi) {
    w *= 40.0F;
  }
  c.bf[0] = 8.0F;  // forgets a third of a thousandth a token
  const mlstm_ref scorer = c.ref(0);
  const numbers x = kvpop_test::draw(random, 3000 * 32, 1.0);
  numbers memory = memory_of(scorer);
  const numbers got = run_scorer(scorer, 0, x.data(), 32, 3000, memory.data());
  const std::vector<double> want = c.oracle(0, x.data(), 3000, 0);
  for (std::size_t t = 0; t < want.size(); ++t) {
    REQUIRE(std::abs(static_cast<double>(got[t]) - want[t]) < 2e-3);
  }
}

TEST_CASE("a copy of the memory is the state: any chunking gives the same bits") {
  generator random(312);
  const mlstm_case c = mlstm_case::random(random, {2, 13, 11}, 7, 5);
  const mlstm_ref scorer = c.ref(4);
  const numbers x = kvpop_test::draw(random, 60 * 24, 1.0);
  numbers memory = memory_of(scorer);
  const numbers whole = run_scorer(scorer, 1, x.data(), 24, 60, memory.data());
  numbers pieces = memory_of(scorer);
  for (std::int64_t q = 0; q < 60; ++q) {
    numbers moved(pieces);  // elsewhere, with another alignment
    moved.insert(moved.begin(), static_cast<std::size_t>(q % 5), 0.0F);
    float* const state = moved.data() + q % 5;
    scorer.observe(1, q, x.data() + q * 24, state);
    if (q >= 4) {
      const float r = scorer.score(1, q - 4, x.data() + (q - 4) * 24, state);
      REQUIRE(std::bit_cast<std::uint32_t>(r) == std::bit_cast<std::uint32_t>(whole[static_cast<std::size_t>(q - 4)]));
    }
    pieces.assign(state, state + scorer.memory_size());
  }
  CHECK(std::memcmp(pieces.data(), memory.data(), memory.size() * sizeof(float)) == 0);
}

TEST_CASE("reset starts a sequence anew") {
  generator random(313);
  const mlstm_case c = mlstm_case::random(random, {1, 5, 4}, 3, 2);
  const mlstm_ref scorer = c.ref(0);
  CHECK(scorer.memory_size() == 3 * 2 + 3 + 1);
  const numbers x = kvpop_test::draw(random, 10 * 9, 1.0);
  numbers memory = memory_of(scorer);
  CHECK(memory[0] == 0.0F);
  CHECK(std::bit_cast<std::uint32_t>(memory.back()) == 0xff800000U);
  const numbers first = run_scorer(scorer, 0, x.data(), 9, 10, memory.data());
  const numbers second = run_scorer(scorer, 0, x.data(), 9, 10, memory.data());
  CHECK(std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0);
}

TEST_CASE("a NaN anywhere in the memory gives NaN until the sequence is reset") {
  generator random(314);
  const mlstm_case c = mlstm_case::random(random, {1, 5, 4}, 3, 2);
  const mlstm_ref scorer = c.ref(0);
  const numbers x = kvpop_test::draw(random, 9, 1.0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(scorer.memory_size()); ++i) {
    CAPTURE(i);
    numbers memory = memory_of(scorer);
    scorer.observe(0, 0, x.data(), memory.data());
    CHECK_FALSE(std::isnan(scorer.score(0, 0, x.data(), memory.data())));
    memory[i] = nan_value;
    CHECK(std::isnan(scorer.score(0, 0, x.data(), memory.data())));
    scorer.observe(0, 1, x.data(), memory.data());
    CHECK(std::isnan(scorer.score(0, 1, x.data(), memory.data())));
    scorer.reset(memory.data());
    scorer.observe(0, 0, x.data(), memory.data());
    CHECK_FALSE(std::isnan(scorer.score(0, 0, x.data(), memory.data())));
  }
}

TEST_CASE("a NaN in one token poisons every later score, an infinity never crashes") {
  generator random(315);
  const mlstm_case c = mlstm_case::random(random, {1, 5, 4}, 3, 2);
  const mlstm_ref scorer = c.ref(0);
  const numbers good = kvpop_test::draw(random, 9, 1.0);
  for (std::size_t i = 0; i < 9; ++i) {
    for (const std::uint32_t bits : {0x7fc00000U, 0x7f800000U, 0xff800000U}) {
      numbers bad = good;
      bad[i] = std::bit_cast<float>(bits);
      numbers memory = memory_of(scorer);
      scorer.observe(0, 0, good.data(), memory.data());
      scorer.observe(0, 1, bad.data(), memory.data());
      CHECK_FALSE(std::isfinite(scorer.score(0, 1, bad.data(), memory.data())));
      scorer.observe(0, 2, good.data(), memory.data());
      if (bits == 0x7fc00000U) {
        CHECK(std::isnan(scorer.score(0, 2, good.data(), memory.data())));
      }
    }
  }
}

TEST_CASE("the largest memory fits the stack") {
  generator random(316);
  const mlstm_case c = mlstm_case::random(random, {1, 2, 1}, 1024, 1024);
  const mlstm_ref scorer = c.ref(0);
  const numbers x = kvpop_test::draw(random, 2 * 3, 1.0);
  numbers memory = memory_of(scorer);
  const numbers got = run_scorer(scorer, 0, x.data(), 3, 2, memory.data());
  const std::vector<double> want = c.oracle(0, x.data(), 2, 0);
  CHECK(static_cast<double>(got[1]) == doctest::Approx(want[1]).epsilon(1e-4));
}

TEST_CASE("sizes beyond the stack, missing parameters and a negative delay are refused") {
  const float p[1] = {};
  const auto make = [&p](std::int64_t dk, std::int64_t dv, std::int64_t delay, const float* last) {
    mlstm_parameters all;
    all.dk = dk;
    all.dv = dv;
    all.wk = all.wq = all.wv = all.wo = all.wf = all.wi = all.a = all.wout = all.bf = all.bi = p;
    all.b = last;
    return mlstm_ref({1, 1, 1}, all, delay);
  };
  CHECK(make(1024, 1024, 5, p).delay() == 5);
  CHECK(make(1, 1, 0, p).log_gamma(0) == 0.0F);
  CHECK_THROWS_WITH_AS(make(1025, 1, 0, p), "kvpop: mlstm: dk is 1025; it must be in 1 .. 1024", kvpop::error);
  CHECK_THROWS_WITH_AS(make(1, 0, 0, p), "kvpop: mlstm: dv is 0; it must be in 1 .. 1024", kvpop::error);
  CHECK_THROWS_WITH_AS(make(1, 1, -1, p), "kvpop: mlstm: delay is -1; it must be at least 0", kvpop::error);
  CHECK_THROWS_WITH_AS(make(1, 1, 0, nullptr), "kvpop: mlstm: a parameter is null", kvpop::error);
}

}  // namespace
