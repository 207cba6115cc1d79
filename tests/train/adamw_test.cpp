#include "kvpop/train/adamw.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/message_of.hpp"   // message_of
#include "support/train_cases.hpp"  // normals

using kvpop::adamw_options;
using kvpop::index_t;

namespace {

TEST_CASE("the first step moves every parameter by the rate against its gradient's sign, and decays matrices alone") {
  for (const bool decays : {false, true}) {
    std::vector<double> p{1.0, -2.0, 3.0}, m(3), v(3);
    const std::vector<double> g{1e-3, -50.0, 0.0};
    adamw_options options;
    options.weight_decay = 0.1, options.epsilon = 1e-12;
    kvpop::adamw_step(p.data(), g.data(), m.data(), v.data(), 3, 1.0, 0.01, 1, decays, options);
    const double decay = decays ? 0.01 * 0.1 : 0.0;
    CHECK(p[0] == doctest::Approx(1.0 - 0.01 - decay * 1.0));
    CHECK(p[1] == doctest::Approx(-2.0 + 0.01 + decay * 2.0));
    CHECK(p[2] == doctest::Approx(3.0 - decay * 3.0));
  }
}

TEST_CASE_TEMPLATE("many steps follow the published recursion, bias corrected by the sums themselves", T, float,
                   double) {
  kvpop_test::generator random(880);
  for (int draw = 0; draw < kvpop_test::draws(500); ++draw) {  // 1,000 over the two types
    const adamw_options options{random.pick({0.0, 0.9}), random.pick({0.5, 0.95}), 1e-8, random.pick({0.0, 1e-2})};
    const index_t steps = random.integer(1, 12);
    const double rate = 0.01, scale = random.pick({1.0, 0.25});
    const auto gradients = kvpop_test::normals<T>(random, steps, 1.0);
    T p = static_cast<T>(random.normal());
    double want = static_cast<double>(p);
    T m{}, v{};
    for (index_t s = 1; s <= steps; ++s) {
      kvpop::adamw_step(&p, &gradients[static_cast<std::size_t>(s - 1)], &m, &v, 1, scale, rate, s, true, options);
      // Weighted means of all gradients so far, as sums: the closed form of m_hat and v_hat.
      double mean = 0, square = 0, mean_weights = 0, square_weights = 0;
      for (index_t i = 1; i <= s; ++i) {
        const double g = scale * static_cast<double>(gradients[static_cast<std::size_t>(i - 1)]);
        const double a = std::pow(options.beta1, static_cast<double>(s - i));
        const double b = std::pow(options.beta2, static_cast<double>(s - i));
        mean += a * g, mean_weights += a;
        square += b * g * g, square_weights += b;
      }
      want -= rate * (mean / mean_weights / (std::sqrt(square / square_weights) + options.epsilon) +
                      options.weight_decay * want);
    }
    REQUIRE(std::abs(static_cast<double>(p) - want) <= (sizeof(T) == 4 ? 1e-5 : 1e-12) * (1 + std::abs(want)));
  }
}

TEST_CASE("clipping: to the limit and no further; 0 is no limit") {
  const std::vector<float> x{3.0F, -4.0F};
  CHECK(kvpop::sum_of_squares(x.data(), 2) == 25.0);
  CHECK(kvpop::clip_scale(5.0, 1.0) == doctest::Approx(0.2));
  CHECK(kvpop::clip_scale(0.5, 1.0) == 1.0);
  CHECK(kvpop::clip_scale(5.0, 0.0) == 1.0);
  CHECK(kvpop::clip_scale(1.0, 1.0) == 1.0);
  CHECK(kvpop::global_norm(x.data(), 2) == 5.0);
  CHECK(kvpop::global_norm(x.data(), 0) == 0.0);
  const float largest[1]{std::numeric_limits<float>::max()};
  CHECK(kvpop::is_finite_norm(kvpop::global_norm(largest, 1)));
}

TEST_CASE("a norm that is not finite is told apart and never gives a scale that could be used") {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity()}) {
    const std::vector<double> x{1.0, bad};
    const double norm = kvpop::global_norm(x.data(), 2);
    CHECK_FALSE(kvpop::is_finite_norm(norm));
    for (const double limit : {0.0, 1.0}) CHECK(std::isnan(kvpop::clip_scale(norm, limit)));
  }
  for (const double good : {0.0, 1e-310, 1.0, std::numeric_limits<double>::max()}) {
    CHECK(kvpop::is_finite_norm(good));
  }
}

TEST_CASE("options out of range are refused by name") {
  using kvpop_test::message_of;
  CHECK(message_of([] { adamw_options{1.0}.validate(); }) ==
        "kvpop: adamw_options.beta1 is 1.000000; it must be in [0, 1)");
  CHECK(message_of([] {
          adamw_options{0.9, -0.1}.validate();
        }) == "kvpop: adamw_options.beta2 is -0.100000; it must be in [0, 1)");
  CHECK(message_of([] {
          adamw_options{0.9, 0.95, 0.0}.validate();
        }) == "kvpop: adamw_options.epsilon is 0.000000; it must be greater than 0");
  CHECK(message_of([] {
          adamw_options{0.9, 0.95, 1e-8, -1.0}.validate();
        }) == "kvpop: adamw_options.weight_decay is -1.000000; it must be at least 0");
}

}  // namespace
