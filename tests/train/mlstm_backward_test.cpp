#include "kvpop/train/mlstm_backward.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/mlstm_pass.hpp"   // mlstm_pass
#include "support/train_cases.hpp"  // normals, golden_block

using kvpop::index_t;
using kvpop::mlstm_sizes;
using kvpop_test::generator;
using kvpop_test::mlstm_pass;

namespace {

TEST_CASE_TEMPLATE("mlstm.grad.* of the golden data", T, float, double) {
  const auto x = golden::tensor<double>("mlstm.x"), dr = golden::tensor<double>("mlstm.dr");
  const index_t window = golden::params()["mlstm"]["window"], tokens = x.shape[1];
  for (index_t h = 0; h < x.shape[0]; ++h) {
    const auto block = kvpop_test::golden_block("mlstm.param.", kvpop_test::mlstm_names, h);
    const std::vector<T> parameters(block.begin(), block.end());
    const std::vector<T> xs(x.row(h), x.row(h) + tokens * x.shape[2]), drs(dr.row(h), dr.row(h) + tokens);
    mlstm_pass<T> p({x.shape[2], 12, 20}, tokens, window);
    const auto got = p.backward(parameters, xs, drs);
    double all = 0;
    for (const double g : kvpop_test::golden_block("mlstm.grad.", kvpop_test::mlstm_names, h))
      all = std::fmax(all, std::abs(g));
    std::size_t at = 0;
    for (const std::string& name : kvpop_test::mlstm_names) {  // tensor by tensor: their sizes differ
      CAPTURE(name);
      const auto want = kvpop_test::golden_block("mlstm.grad.", {name}, h);
      double largest = 1e-2 * all;  // that of bi is all but 0: one factor of all gates cancels where n . u normalises
      for (const double g : want) largest = std::fmax(largest, std::abs(g));
      for (std::size_t i = 0; i < want.size(); ++i)  // in f32 the sums over 90 tokens round
        REQUIRE(std::abs(static_cast<double>(got[at + i]) - want[i]) <= (sizeof(T) == 4 ? 1e-4 : 1e-9) * largest);
      at += want.size();
    }
    CHECK(at == got.size());
  }
}

TEST_CASE("the gradient is that of central differences in double, across chunks and for any delay") {
  generator random(830);
  for (int draw = 0; draw < kvpop_test::draws(60); ++draw) {
    const mlstm_sizes sizes{random.integer(1, 4), random.integer(1, 3), random.integer(1, 3)};
    const index_t tokens = random.pick<index_t>({1, 3, 40, 64, 65, 130});
    const index_t delay = random.pick<index_t>({0, 1, 7, 64, 66, 140});
    auto parameters = kvpop_test::normals<double>(random, sizes.parameters(), 0.6);
    parameters[static_cast<std::size_t>(sizes.bf())] = random.pick({-1.0, 3.0});
    // Small values: exp(-m) decides the normaliser; large ones: n . u does.
    const double size = random.pick({1e-2, 1.0, 2.0});
    const auto x = kvpop_test::normals<double>(random, tokens * sizes.inputs, size);
    const auto dr = kvpop_test::normals<double>(random, tokens, 1.0);
    mlstm_pass<double> p(sizes, tokens, delay);
    const auto gradient = p.backward(parameters, x, dr);
    const auto value = [&] {
      double sum = 0;
      const auto r = p.forward(parameters, x);
      for (index_t t = 0; t + delay < tokens; ++t)
        sum += r[static_cast<std::size_t>(t)] * dr[static_cast<std::size_t>(t)];
      return sum;
    };
    double largest = 1e-3;
    for (const double g : gradient) largest = std::fmax(largest, std::abs(g));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto slope = [&](double step) {
        const double kept = parameters[i];
        parameters[i] = kept + step;
        const double above = value();
        parameters[i] = kept - step;
        const double below = value();
        parameters[i] = kept;
        return (above - below) / (2 * step);
      };
      const double coarse = slope(1e-5), fine = slope(3e-6);
      // Where the normaliser changes sides between the two the function has a kink, and differences say nothing.
      if (std::abs(coarse - fine) > 1e-4 * largest) continue;
      REQUIRE(std::abs(gradient[i] - fine) <= 1e-5 * largest);
    }
  }
}

TEST_CASE("gradients are added to, and single tokens that are not read count for nothing") {
  generator random(831);
  const mlstm_sizes sizes{3, 2, 2};
  const auto parameters = kvpop_test::normals<float>(random, sizes.parameters(), 0.5);
  const auto x = kvpop_test::normals<float>(random, 70 * 3, 1.0);
  std::vector<float> dr(70, 0.5F);
  mlstm_pass<float> p(sizes, 70, 10);
  const auto once = p.backward(parameters, x, dr);
  std::vector<float> twice = once;
  kvpop::mlstm_backward(kvpop::plain_product{}, sizes, parameters.data(), x.data(), 3, 70, 10, p.tape, dr.data(),
                        p.scratch, twice.data());
  for (std::size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == doctest::Approx(2 * once[i]).epsilon(1e-5));
  for (std::size_t t = 60; t < 70; ++t) dr[t] = 1e30F;
  CHECK(p.backward(parameters, x, dr) == once);
}

}  // namespace
