#include "kvpop/train/score_losses.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/train_cases.hpp"  // normals

using kvpop::index_t;

namespace {

// The gradient that `loss(r, dr)` adds against central differences.
template <class Loss>
void check_gradient(std::vector<double> r, const Loss& loss) {
  std::vector<double> dr(r.size(), 0.0), ignored(r.size());
  loss(r, dr);
  for (std::size_t t = 0; t < r.size(); ++t) {
    const double kept = r[t], step = 1e-5;
    r[t] = kept + step;
    const double above = loss(r, ignored);
    r[t] = kept - step;
    const double below = loss(r, ignored);
    r[t] = kept;
    REQUIRE(std::abs((above - below) / (2 * step) - dr[t]) <= 1e-7 * (1 + std::abs(dr[t])));
  }
}

TEST_CASE("regression: the mean squared error over the tokens that leave the window, and its gradient") {
  kvpop_test::generator random(870);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t tokens = random.integer(1, 14);
    const kvpop::budget limits{random.integer(0, 4), random.integer(1, 5), 1};
    const auto r = kvpop_test::normals<double>(random, tokens, 1.0),
               target = kvpop_test::normals<double>(random, tokens, 1.0);
    double want = 0;
    index_t count = 0;
    for (index_t t = 0; t < tokens; ++t) {
      if (t < limits.sinks || t + limits.window >= tokens) continue;
      want += std::pow(r[static_cast<std::size_t>(t)] - target[static_cast<std::size_t>(t)], 2);
      ++count;
    }
    REQUIRE(kvpop::scored_tokens(tokens, limits) == count);
    const auto loss = [&](const std::vector<double>& scores, std::vector<double>& dr) {
      return kvpop::regression_loss(scores.data(), target.data(), tokens, limits, 0.5, dr.data());
    };
    std::vector<double> dr(r.size());
    REQUIRE(loss(r, dr) == doctest::Approx(0.5 * want));
    if (draw < 100) check_gradient(r, loss);
  }
}

TEST_CASE("pairs: a logistic loss on the sign of the target's difference, ties skipped, and its gradient") {
  kvpop_test::generator random(871);
  for (int draw = 0; draw < kvpop_test::draws(200); ++draw) {
    const index_t tokens = random.integer(3, 14);
    const kvpop::budget limits{random.integer(0, 1), 1, 1};
    const auto r = kvpop_test::normals<double>(random, tokens, 1.0);
    std::vector<double> target;
    for (index_t t = 0; t < tokens; ++t) target.push_back(static_cast<double>(random.integer(0, 3)));  // many ties
    const std::uint64_t seed = random.bits();
    const auto loss = [&](const std::vector<double>& scores, std::vector<double>& dr) {
      kvpop::random_stream stream(seed);
      return kvpop::pair_loss(stream, scores.data(), target.data(), tokens, limits, 20, 0.25, dr.data());
    };
    check_gradient(r, loss);
    std::vector<double> dr(r.size(), 0.0);
    loss(r, dr);
    double sum = 0;
    for (const double d : dr) sum += d;
    REQUIRE(std::abs(sum) < 1e-12);  // what one token gains its rival loses
    for (index_t t = 0; t < tokens; ++t) {
      if (t < limits.sinks || t + limits.window >= tokens) REQUIRE(dr[static_cast<std::size_t>(t)] == 0.0);
    }
    const std::vector<double> perfect = [&] {  // scores far apart in the target's order cost nothing
      std::vector<double> x;
      for (const double t : target) x.push_back(1000 * t);
      return x;
    }();
    REQUIRE(loss(perfect, dr) == doctest::Approx(0.0));
  }
}

TEST_CASE("pairs: NaN targets and equal infinities are skipped, an infinity outranks every number") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const std::vector<double> r(3, 0.0);
  const auto gradient = [&](const std::vector<double>& target) {
    std::vector<double> dr(3, 0.0);
    kvpop::random_stream stream(5);
    kvpop::pair_loss(stream, r.data(), target.data(), 3, {0, 1, 1}, 64, 1.0, dr.data());
    return dr;
  };
  const std::vector<double> nothing(3, 0.0);
  CHECK(gradient({nan, 1.0, 9.0}) == nothing);  // the window's own token, 9, takes no part
  CHECK(gradient({1.0, -nan, 9.0}) == nothing);
  CHECK(gradient({inf, inf, 9.0}) == nothing);
  CHECK(gradient({-0.0, 0.0, 9.0}) == nothing);
  CHECK(gradient({inf, 1e300, 9.0})[0] < 0.0);  // its score is to rise
  CHECK(gradient({-inf, -1e300, 9.0})[0] > 0.0);
}

TEST_CASE("too few tokens give no loss") {
  const std::vector<float> r(4, 1.0F);
  const std::vector<double> target(4, 3.0);
  std::vector<float> dr(4, 0.0F);
  kvpop::random_stream stream(1);
  CHECK(kvpop::regression_loss(r.data(), target.data(), 4, {2, 2, 1}, 1.0F, dr.data()) == 0.0F);
  CHECK(kvpop::pair_loss(stream, r.data(), target.data(), 4, {1, 2, 1}, 5, 1.0F, dr.data()) == 0.0F);
  for (const float d : dr) CHECK(d == 0.0F);
}

}  // namespace
