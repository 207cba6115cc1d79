#include "kvpop/attention/reduction.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/generators.hpp"  // generator, draws
#include "support/message_of.hpp"  // message_of

using kvpop::index_t;
namespace simd = kvpop::simd;

namespace {

// Feeds one lane's weights through a reduction, in two parts that are joined.
template <class R>
float run(const R& r, const std::vector<float>& log_weights, std::size_t cut, index_t lane) {
  simd::vec early = r.initial(), late = r.initial();
  for (std::size_t i = 0; i < log_weights.size(); ++i) {
    simd::vec w = simd::broadcast(-3.0F), age = simd::broadcast(static_cast<float>(i));
    w[lane] = log_weights[i];
    simd::vec& state = i < cut ? early : late;
    state = r.take(state, w, age);
  }
  return r.finish(r.join(early, late)[lane], static_cast<index_t>(log_weights.size()));
}

TEST_CASE("every reduction is its formula in double, however the queries are split") {
  kvpop_test::generator random(740);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    std::vector<float> w(static_cast<std::size_t>(random.integer(0, 40)));
    for (float& x : w) x = -std::abs(random.normal()) * static_cast<float>(random.pick({0.0, 0.1, 3.0, 40.0}));
    const auto cut = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(w.size())));
    const index_t lane = random.integer(0, simd::lanes - 1);
    const double alpha = random.pick({0.5, 1.0, 1.5, 2.0, 3.0}), rho = random.pick({0.3, 0.99, 1.0});
    double power = 0, sum = 0, largest = 0, discounted = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double p = std::exp(static_cast<double>(w[i]));
      power += std::pow(p, alpha);
      sum += p;
      largest = std::fmax(largest, p);
      discounted += p * std::pow(static_cast<double>(static_cast<float>(rho)), static_cast<double>(i));
    }
    // 1e-12: where weight^3 leaves the range of float the result is 0, far below any epsilon of a target.
    const auto near = [](float got, double want) {
      return std::abs(static_cast<double>(got) - want) <= 5e-6 * want + 1e-12;
    };
    const double n = std::fmax(1.0, static_cast<double>(w.size()));
    REQUIRE(near(run(kvpop::power_mean(static_cast<float>(alpha)), w, cut, lane), std::pow(power / n, 1 / alpha)));
    REQUIRE(near(run(kvpop::weight_sum{}, w, cut, lane), sum));
    REQUIRE(near(run(kvpop::largest_weight{}, w, cut, lane), largest));
    REQUIRE(near(run(kvpop::discounted_sum(static_cast<float>(rho)), w, cut, lane), discounted));
  }
}

TEST_CASE("a weight that is NaN makes the result NaN, wherever it stands") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t at = 0; at < 6; ++at) {
    std::vector<float> w(6, -1.0F);
    w[at] = nan;
    for (const std::size_t cut : {0U, 3U, 6U}) {
      CHECK(std::isnan(run(kvpop::power_mean(2.0F), w, cut, 1)));
      CHECK(std::isnan(run(kvpop::weight_sum{}, w, cut, 1)));
      CHECK(std::isnan(run(kvpop::largest_weight{}, w, cut, 1)));
      CHECK(std::isnan(run(kvpop::discounted_sum(0.5F), w, cut, 1)));
    }
  }
}

TEST_CASE("a logit of -infinity weighs nothing, and no queries give 0") {
  const std::vector<float> nothing, hidden(3, -std::numeric_limits<float>::infinity());
  for (const auto& w : {nothing, hidden}) {
    CHECK(run(kvpop::power_mean(1.5F), w, 1, 0) == 0.0F);
    CHECK(run(kvpop::weight_sum{}, w, 1, 0) == 0.0F);
    CHECK(run(kvpop::largest_weight{}, w, 1, 0) == 0.0F);
    CHECK(run(kvpop::discounted_sum(0.5F), w, 1, 0) == 0.0F);
  }
}

TEST_CASE("parameters out of range are refused by name") {
  using kvpop_test::message_of;
  CHECK(message_of([] { kvpop::power_mean(0.0F); }) ==
        "kvpop: power_mean: alpha is 0.000000; it must be finite and greater than 0");
  CHECK(message_of([] { kvpop::power_mean(-2.0F); }) ==
        "kvpop: power_mean: alpha is -2.000000; it must be finite and greater than 0");
  CHECK(message_of([] { static_cast<void>(kvpop::power_mean(std::numeric_limits<float>::infinity())); }) ==
        "kvpop: power_mean: alpha is inf; it must be finite and greater than 0");
  CHECK(message_of([] { kvpop::discounted_sum(1.5F); }) ==
        "kvpop: discounted_sum: rho is 1.500000; it must be greater than 0 and at most 1");
  CHECK(message_of([] { kvpop::discounted_sum(0.0F); }) ==
        "kvpop: discounted_sum: rho is 0.000000; it must be greater than 0 and at most 1");
  CHECK(message_of([] { kvpop::discounted_sum(-0.5F); }) ==
        "kvpop: discounted_sum: rho is -0.500000; it must be greater than 0 and at most 1");
}

}  // namespace
