#include "kvpop/train/boundary_loss.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kvpop/score/decay.hpp"  // log_gamma_of_parameter, log_gamma_slope
#include "kvpop/select/priority.hpp"
#include "support/message_of.hpp"   // message_of
#include "support/train_cases.hpp"  // normals

using kvpop::boundary_options;
using kvpop::boundary_pair;
using kvpop::index_t;

namespace {

std::vector<boundary_pair> pairs_of(const std::vector<double>& priority, const kvpop::budget& limits) {
  const auto tokens = static_cast<index_t>(priority.size());
  std::vector<kvpop::rank> heap(static_cast<std::size_t>(kvpop::long_range_tokens(tokens, limits)));
  std::vector<boundary_pair> pairs(static_cast<std::size_t>(kvpop::max_boundary_pairs(tokens, limits)));
  kvpop::boundary_pairs(priority.data(), tokens, limits, heap.data(), pairs.data());
  return pairs;
}

template <class T>
void check_golden(const std::string& name) {
  CAPTURE(name);
  const auto teacher = golden::tensor<double>(name + ".teacher"), r = golden::tensor<double>(name + ".r"),
             g = golden::tensor<double>(name + ".g");
  const auto params = golden::params()[name];
  const kvpop::budget limits{params["sinks"], params["window"], params["topk"]};
  const boundary_options options{params["tau"], params["balance"]};
  const index_t heads = r.shape[0], tokens = r.shape[1];
  std::vector<std::vector<boundary_pair>> pairs;
  index_t total = 0;
  for (index_t h = 0; h < heads; ++h) {
    const double lg = kvpop::log_gamma_of_parameter(g.values[static_cast<std::size_t>(h)]);
    std::vector<double> priority;
    for (index_t t = 0; t < tokens; ++t) priority.push_back(teacher.row(h)[t] - static_cast<double>(t) * lg);
    pairs.push_back(pairs_of(priority, limits));
    total += static_cast<index_t>(pairs.back().size());
  }
  const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-10;
  double loss = 0;
  std::vector<T> dr(r.values.size(), T{0});
  std::vector<double> dg;
  for (index_t h = 0; h < heads; ++h) {
    const double free = g.values[static_cast<std::size_t>(h)];
    const std::vector<T> scores(r.row(h), r.row(h) + tokens);
    const auto& own = pairs[static_cast<std::size_t>(h)];
    const auto result = kvpop::boundary_loss(own.data(), static_cast<index_t>(own.size()), scores.data(),
                                             static_cast<T>(kvpop::log_gamma_of_parameter(free)), teacher.row(h),
                                             options, T{1} / static_cast<T>(total), dr.data() + h * tokens);
    loss += static_cast<double>(result.loss);
    dg.push_back(static_cast<double>(result.dlog_gamma) * kvpop::log_gamma_slope(free));
  }
  CHECK(std::abs(loss - golden::tensor<double>(name + ".loss").values[0]) <= tolerance * loss);
  CHECK(kvpop_test::worst_of_largest(dr, golden::tensor<double>(name + ".grad_r").values) <= tolerance);
  CHECK(kvpop_test::worst_of_largest(dg, golden::tensor<double>(name + ".grad_g").values) <= tolerance);
}

TEST_CASE_TEMPLATE("boundary.* of the golden data: loss and gradients to scores and decay", T, float, double) {
  check_golden<T>("boundary.0");
  check_golden<T>("boundary.1");
}

TEST_CASE("gradients are central differences in double, balanced and not") {
  kvpop_test::generator random(860);
  for (int draw = 0; draw < kvpop_test::draws(300); ++draw) {
    const index_t tokens = random.integer(8, 30);
    const kvpop::budget limits{random.integer(0, 2), random.integer(1, 4), random.integer(1, 4)};
    auto r = kvpop_test::normals<double>(random, tokens, random.pick({1.0, 30.0}));
    const auto teacher = kvpop_test::normals<double>(random, tokens, 2.0);
    const auto pairs = pairs_of(teacher, limits);
    const auto count = static_cast<index_t>(pairs.size());
    const boundary_options options{random.pick({0.3, 1.0}), random.chance(0.5)};
    double lg = -0.01;
    std::vector<double> dr(r.size(), 0.0);
    const auto value = [&] {
      std::vector<double> ignored(r.size());
      return kvpop::boundary_loss(pairs.data(), count, r.data(), lg, teacher.data(), options, 0.7, ignored.data()).loss;
    };
    const auto result =
        kvpop::boundary_loss(pairs.data(), count, r.data(), lg, teacher.data(), options, 0.7, dr.data());
    const auto slope = [&](double& x) {
      const double kept = x, step = 1e-5;
      x = kept + step;
      const double above = value();
      x = kept - step;
      const double below = value();
      x = kept;
      return (above - below) / (2 * step);
    };
    for (std::size_t t = 0; t < r.size(); ++t) REQUIRE(std::abs(slope(r[t]) - dr[t]) <= 1e-6 * (1 + std::abs(dr[t])));
    REQUIRE(std::abs(slope(lg) - result.dlog_gamma) <= 1e-5 * (1 + std::abs(result.dlog_gamma)));
  }
}

TEST_CASE("omega: margins grow with the teacher's gap, balance gives each sign half") {
  const boundary_pair pairs[3]{{9, 5, 2, true}, {10, 6, 2, false}, {11, 7, 2, false}};
  const std::vector<double> r(12, 0.0);
  std::vector<double> teacher(12, 0.0), dr(12, 0.0);
  teacher[5] = 2.0, teacher[6] = -0.5, teacher[7] = -30.0;
  const double half = std::log(2.0);  // softplus(0)
  const auto loss = [&](const boundary_options& options) {
    return kvpop::boundary_loss(pairs, 3, r.data(), 0.0, teacher.data(), options, 1.0, dr.data());
  };
  CHECK(loss({}).loss == doctest::Approx(3 * half));
  CHECK(loss({1.0, true, false, 1.0}).loss == doctest::Approx((1.5 + 0.75 + 0.75) * half));
  CHECK(loss({1.0, false, true, 2.0}).loss ==
        doctest::Approx((3 - std::exp(-1.0) - std::exp(-0.25) - std::exp(-15.0)) * half));
  CHECK(loss({}).right == 1);  // equal scores: the later token, which is the entering one, stays
}

TEST_CASE("right counts what a cache that runs on the student's scores would do: ties, NaN, infinities, decay") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto enters = [](double entering, double boundary, double log_gamma) {
    std::vector<double> r(12, 0.0), dr(12, 0.0);
    r[5] = entering, r[2] = boundary;
    index_t right[2];
    for (const bool wins : {false, true}) {
      const boundary_pair pair{9, 5, 2, wins};
      right[wins ? 1 : 0] = kvpop::boundary_loss(&pair, 1, r.data(), log_gamma, nullptr, {}, 1.0, dr.data()).right;
    }
    REQUIRE(right[0] + right[1] == 1);
    return right[1] == 1;
  };
  CHECK(enters(0.0, 0.0, 0.0));
  CHECK(enters(-0.0, 0.0, 0.0));
  CHECK(enters(inf, inf, 0.0));
  CHECK(enters(-inf, nan, 0.0));
  CHECK(enters(nan, nan, 0.0));
  CHECK_FALSE(enters(nan, -inf, 0.0));
  CHECK_FALSE(enters(1.0, 1.5, 0.0));
  CHECK(enters(1.0, 1.5, -0.25));  // the boundary token is older by 3 and has decayed by .75 more
}

// One pair's term as docs/method.md section 5 writes it, in long double; `decay` is the teacher's, a constant.
long double term(const boundary_pair& p, const std::vector<double>& r, double log_gamma,
                 const std::vector<double>& teacher, double decay, const boundary_options& options) {
  const auto effective = [&p](const std::vector<double>& x, index_t t, double lg) {
    return static_cast<long double>(x[static_cast<std::size_t>(t)]) +
           static_cast<long double>(p.query - t) * static_cast<long double>(lg);
  };
  const long double gap = effective(r, p.entering, log_gamma) - effective(r, p.boundary, log_gamma);
  const long double far = effective(teacher, p.entering, decay) - effective(teacher, p.boundary, decay);
  const long double omega =
      options.margin_weights ? 1 - std::exp(-std::abs(far) / static_cast<long double>(options.margin)) : 1;
  const long double z = (p.wins ? -gap : gap) / static_cast<long double>(options.tau);
  return omega * std::log1p(std::exp(z));
}

TEST_CASE("margin weights: loss, gradients and decay are those of the formula, whose teacher stands still") {
  kvpop_test::generator random(861);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t tokens = random.integer(6, 20);
    const kvpop::budget limits{random.integer(0, 2), random.integer(1, 3), random.integer(1, 4)};
    auto r = kvpop_test::normals<double>(random, tokens, 1.0);
    const auto teacher = kvpop_test::normals<double>(random, tokens, 1.0);
    const double decay = -random.uniform();
    std::vector<double> priority = teacher;
    for (std::size_t t = 0; t < priority.size(); ++t) priority[t] -= static_cast<double>(t) * decay;
    const auto pairs = pairs_of(priority, limits);
    boundary_options options{random.pick({0.3, 1.0}), random.chance(0.5), true, random.pick({0.5, 1.0, 3.0})};
    index_t wins = 0;
    for (const boundary_pair& p : pairs) wins += p.wins ? 1 : 0;
    const auto count = static_cast<index_t>(pairs.size());
    const auto loss = [&](double log_gamma) {
      long double sum = 0;
      for (const boundary_pair& p : pairs) {
        const index_t same = p.wins ? wins : count - wins;
        const long double half =
            options.balance ? 0.5L * static_cast<long double>(count) / static_cast<long double>(same) : 1;
        sum += half * term(p, r, log_gamma, teacher, decay, options);
      }
      return 0.7L * sum;
    };
    std::vector<double> dr(r.size(), 0.0);
    const auto got =
        kvpop::boundary_loss(pairs.data(), count, r.data(), decay, teacher.data(), options, 0.7, dr.data());
    REQUIRE(std::abs(static_cast<double>(loss(decay)) - got.loss) <= 1e-12 * (1 + got.loss));
    constexpr double step = 1e-5;
    for (std::size_t t = 0; t < r.size(); ++t) {
      const double kept = r[t];
      r[t] = kept + step;
      const long double above = loss(decay);
      r[t] = kept - step;
      const long double below = loss(decay);
      r[t] = kept;
      REQUIRE(std::abs(static_cast<double>(above - below) / (2 * step) - dr[t]) <= 1e-6 * (1 + std::abs(dr[t])));
    }
    const double slope = static_cast<double>(loss(decay + step) - loss(decay - step)) / (2 * step);
    REQUIRE(std::abs(slope - got.dlog_gamma) <= 1e-5 * (1 + std::abs(got.dlog_gamma)));

    const std::vector<float> narrow(r.begin(), r.end());
    std::vector<float> narrow_dr(r.size(), 0.0F);
    const auto f32 = kvpop::boundary_loss(pairs.data(), count, narrow.data(), static_cast<float>(decay), teacher.data(),
                                          options, 0.7F, narrow_dr.data());
    REQUIRE(std::abs(static_cast<double>(f32.loss) - got.loss) <= 1e-5 * (1 + got.loss));
    REQUIRE(std::abs(static_cast<double>(f32.dlog_gamma) - got.dlog_gamma) <=
            1e-5 * (1 + std::abs(got.dlog_gamma)) * static_cast<double>(tokens));
    for (std::size_t t = 0; t < r.size(); ++t) {
      REQUIRE(std::abs(static_cast<double>(narrow_dr[t]) - dr[t]) <= 2e-5 * (1 + std::abs(dr[t])));
    }
  }
}

TEST_CASE("decay and its slope stay finite for any parameter") {
  for (const double huge : {800.0, 1e30, 1e300}) {
    CHECK(kvpop::log_gamma_of_parameter(huge) == -huge);
    CHECK(kvpop::log_gamma_slope(huge) == -1.0);
    CHECK(kvpop::log_gamma_of_parameter(-huge) == 0.0);
    CHECK(kvpop::log_gamma_slope(-huge) == 0.0);
  }
}

TEST_CASE("huge gaps give finite losses and the gradient of the hinge") {
  const boundary_pair pairs[1]{{9, 5, 2, true}};
  for (const float huge : {1e4F, -1e4F, 1e30F, -1e30F}) {
    std::vector<float> r(12, 0.0F), dr(12, 0.0F);
    r[5] = huge;
    const auto result = kvpop::boundary_loss(pairs, 1, r.data(), 0.0F, nullptr, {}, 1.0F, dr.data());
    CHECK(result.loss == (huge > 0 ? 0.0F : -huge));
    CHECK(dr[5] == (huge > 0 ? 0.0F : -1.0F));
    CHECK(dr[2] == (huge > 0 ? 0.0F : 1.0F));
  }
}

TEST_CASE("options out of range are refused by name") {
  using kvpop_test::message_of;
  CHECK(message_of([] { boundary_options{0.0}.validate(); }) ==
        "kvpop: boundary_options.tau is 0.000000; it must be greater than 0");
  CHECK(message_of([] {
          boundary_options{1.0, false, true, -1.0}.validate();
        }) == "kvpop: boundary_options.margin is -1.000000; it must be greater than 0");
}

}  // namespace
