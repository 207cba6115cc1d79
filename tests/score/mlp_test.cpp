#include "kvpop/score/mlp.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "support/scorer_cases.hpp"

namespace {

using kvpop::mlp_parameters;
using kvpop::mlp_ref;
using kvpop_test::generator;
using kvpop_test::mlp_case;
using kvpop_test::numbers;

TEST_CASE("mlp.r of the golden data") {
  const mlp_case scorer = mlp_case::golden_case("mlp");
  const auto r = golden::tensor<double>("mlp.r");
  const numbers x = golden::tensor<double>("mlp.x").as_float();
  for (std::int64_t h = 0; h < r.shape[0]; ++h) {
    for (std::int64_t t = 0; t < r.shape[1]; ++t) {
      const float got = scorer.ref().score(h, t, x.data() + (h * r.shape[1] + t) * scorer.input.size(), nullptr);
      REQUIRE(std::abs(static_cast<double>(got) - r.row(h)[t]) <= 2e-5 * std::abs(r.row(h)[t]));
    }
  }
}

TEST_CASE("scores equal those of plain loops in double, for odd and prime sizes") {
  generator random(305);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const kvpop::scorer_input input{random.integer(1, 3), random.integer(1, 130), random.integer(1, 130)};
    const mlp_case scorer = mlp_case::random(random, input, random.integer(1, 67));
    const numbers x = kvpop_test::draw(random, input.size(), std::exp(random.uniform() * 4 - 2));
    const std::int64_t head = random.integer(0, input.kv_heads - 1);
    const double want = scorer.oracle(head, x.data());
    const float got = scorer.ref().score(head, 5, x.data(), nullptr);
    double scale = 1.0;  // the terms of the last sum: each is computed to 1e-6 of itself
    for (std::int64_t i = 0; i < scorer.hidden; ++i) {
      scale += std::abs(static_cast<double>(scorer.w2[static_cast<std::size_t>(head * scorer.hidden + i)])) *
               std::abs(kvpop_test::oracle_dot(scorer.w1.data() + (head * scorer.hidden + i) * input.size(), x.data(),
                                               input.size()));
    }
    REQUIRE(std::abs(static_cast<double>(got) - want) <= 2e-6 * scale);
    REQUIRE(scorer.ref().score(head, 99, x.data(), nullptr) == got);  // the position is not an input
  }
}

TEST_CASE("x need not be aligned") {
  generator random(306);
  const kvpop::scorer_input input{1, 61, 67};
  const mlp_case scorer = mlp_case::random(random, input, 29);
  const numbers x = kvpop_test::draw(random, input.size(), 1.0);
  const float want = scorer.ref().score(0, 0, x.data(), nullptr);
  for (std::size_t shift = 1; shift < 17; ++shift) {
    numbers moved(shift, 0.0F);
    moved.insert(moved.end(), x.begin(), x.end());
    CHECK(scorer.ref().score(0, 0, moved.data() + shift, nullptr) == want);
  }
}

TEST_CASE("a NaN or an infinity in x never harms anything but the score") {
  generator random(307);
  const mlp_case scorer = mlp_case::random(random, {1, 7, 6}, 5);
  for (std::size_t i = 0; i < 13; ++i) {
    numbers x = kvpop_test::draw(random, 13, 1.0);
    x[i] = std::bit_cast<float>(0x7fc00000U);
    CHECK(std::isnan(scorer.ref().score(0, 0, x.data(), nullptr)));
    x[i] = std::bit_cast<float>(0x7f800000U);
    CHECK_FALSE(std::isfinite(scorer.ref().score(0, 0, x.data(), nullptr)));
  }
}

TEST_CASE("decay and delay are what the scorer was made with") {
  generator random(308);
  mlp_case c = mlp_case::random(random, {2, 3, 3}, 2);
  CHECK(c.ref().log_gamma(1) == 0.0F);
  CHECK(c.ref().delay() == 0);
  const float decay[2] = {-0.5F, -0.25F};
  const mlp_ref scorer(c.input, {2, c.w1.data(), c.b1.data(), c.w2.data(), c.b2.data(), decay}, 9);
  CHECK(scorer.log_gamma(1) == -0.25F);
  CHECK(scorer.delay() == 9);
  CHECK(scorer.kv_heads() == 2);
  CHECK(scorer.key_dim() == 3);
  CHECK(scorer.value_dim() == 3);
}

TEST_CASE("sizes beyond the stack and missing parameters are refused") {
  const float p[1] = {};
  const kvpop::scorer_input input{1, 1, 1};
  CHECK_NOTHROW(mlp_ref(input, {4096, p, p, p, p, nullptr}));
  CHECK_THROWS_WITH_AS(mlp_ref(input, {4097, p, p, p, p, nullptr}),
                       "kvpop: mlp: hidden is 4097; it must be in 1 .. 4096", kvpop::error);
  CHECK_THROWS_WITH_AS(mlp_ref(input, {0, p, p, p, p, nullptr}), "kvpop: mlp: hidden is 0; it must be in 1 .. 4096",
                       kvpop::error);
  CHECK_THROWS_WITH_AS(mlp_ref(input, {1, p, p, nullptr, p, nullptr}), "kvpop: mlp: a parameter is null", kvpop::error);
  CHECK_THROWS_WITH_AS(mlp_ref(input, {1, p, p, p, p, nullptr}, -1), "kvpop: mlp: delay is -1; it must be at least 0",
                       kvpop::error);
}

TEST_CASE("the largest hidden layer fits the stack") {
  generator random(309);
  const mlp_case scorer = mlp_case::random(random, {1, 2, 1}, 4096);
  const numbers x = kvpop_test::draw(random, 3, 1.0);
  CHECK(static_cast<double>(scorer.ref().score(0, 0, x.data(), nullptr)) ==
        doctest::Approx(scorer.oracle(0, x.data())).epsilon(1e-4));
}

}  // namespace
