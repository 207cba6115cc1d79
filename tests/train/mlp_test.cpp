#include "kvpop/train/mlp.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "kvpop/score/mlp.hpp"      // mlp_ref
#include "support/train_cases.hpp"  // carved, normals, golden_block

using kvpop::index_t;
using kvpop::mlp_sizes;
using kvpop_test::generator;

namespace {

template <class T>
struct pass {
  mlp_sizes sizes;
  index_t rows;
  std::vector<std::byte> memory;
  kvpop::mlp_tape<T> tape;

  pass(mlp_sizes s, index_t n)
      : sizes(s),
        rows(n),
        tape(kvpop_test::carved(memory, [&](kvpop::carver& c) { return kvpop::mlp_tape<T>::carve(c, s, n); })) {}

  std::vector<T> forward(const std::vector<T>& parameters, const std::vector<T>& x) {
    std::vector<T> r(static_cast<std::size_t>(rows));
    kvpop::mlp_forward(kvpop::plain_product{}, sizes, parameters.data(), x.data(), sizes.inputs, rows, tape, r.data());
    return r;
  }
  std::vector<T> backward(const std::vector<T>& parameters, const std::vector<T>& x, const std::vector<T>& dr) {
    std::vector<T> gradient(parameters.size(), T{0});
    forward(parameters, x);
    kvpop::mlp_backward(kvpop::plain_product{}, sizes, parameters.data(), x.data(), sizes.inputs, rows, tape, dr.data(),
                        gradient.data());
    return gradient;
  }
};

const std::vector<std::string> names{"w1", "b1", "w2", "b2"};

TEST_CASE_TEMPLATE("mlp.r and mlp.grad.* of the golden data", T, float, double) {
  const auto x = golden::tensor<double>("mlp.x"), r = golden::tensor<double>("mlp.r"),
             dr = golden::tensor<double>("mlp.dr");
  const mlp_sizes sizes{x.shape[2], golden::tensor<double>("mlp.param.w1").shape[1]};
  for (index_t h = 0; h < x.shape[0]; ++h) {
    const auto block = kvpop_test::golden_block("mlp.param.", names, h);
    const std::vector<T> parameters(block.begin(), block.end());
    const std::vector<T> xs(x.row(h), x.row(h) + x.shape[1] * x.shape[2]), drs(dr.row(h), dr.row(h) + x.shape[1]);
    pass<T> p(sizes, x.shape[1]);
    const auto got = p.forward(parameters, xs);
    const double tolerance = sizeof(T) == 4 ? 2e-5 : 1e-10;
    CHECK(kvpop_test::worst_of_largest(got, {r.row(h), r.row(h) + x.shape[1]}) <= tolerance);
    CHECK(kvpop_test::worst_of_largest(p.backward(parameters, xs, drs),
                                       kvpop_test::golden_block("mlp.grad.", names, h)) <= tolerance);
  }
}

TEST_CASE("the batched form gives the scores of the scorer that decoding runs") {
  generator random(810);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t key_dim = random.integer(1, 20), value_dim = random.integer(1, 20), hidden = random.integer(1, 17);
    const mlp_sizes sizes{key_dim + value_dim, hidden};
    const index_t rows = random.integer(1, 9);
    const auto parameters = kvpop_test::normals<float>(random, sizes.parameters(), 0.3);
    const auto x = kvpop_test::normals<float>(random, rows * sizes.inputs, 1.0);
    const float* p = parameters.data();
    const kvpop::mlp_ref scorer({1, key_dim, value_dim},
                                {hidden, p, p + sizes.b1(), p + sizes.w2(), p + sizes.b2(), nullptr});
    const auto r = pass<float>(sizes, rows).forward(parameters, x);
    for (index_t t = 0; t < rows; ++t) {
      const float want = scorer.score(0, t, x.data() + t * sizes.inputs, nullptr);
      REQUIRE(std::abs(r[static_cast<std::size_t>(t)] - want) <= 1e-5F * (1.0F + std::abs(want)));
    }
  }
}

TEST_CASE("the gradient is that of central differences in double") {
  generator random(811);
  for (int draw = 0; draw < kvpop_test::draws(200); ++draw) {
    const mlp_sizes sizes{random.integer(1, 7), random.integer(1, 5)};
    const index_t rows = random.integer(1, 6);
    auto parameters = kvpop_test::normals<double>(random, sizes.parameters(), 0.7);
    const auto x = kvpop_test::normals<double>(random, rows * sizes.inputs, 1.0);
    const auto dr = kvpop_test::normals<double>(random, rows, 1.0);
    pass<double> p(sizes, rows);
    const auto gradient = p.backward(parameters, x, dr);
    const auto value = [&] {
      double sum = 0;
      const auto r = p.forward(parameters, x);
      for (std::size_t i = 0; i < r.size(); ++i) sum += r[i] * dr[i];
      return sum;
    };
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double kept = parameters[i], step = 1e-5;
      parameters[i] = kept + step;
      const double above = value();
      parameters[i] = kept - step;
      const double below = value();
      parameters[i] = kept;
      REQUIRE(std::abs(gradient[i] - (above - below) / (2 * step)) <= 1e-7 * (1 + std::abs(gradient[i])));
    }
  }
}

TEST_CASE("gradients are added to, and huge activations stay finite") {
  const mlp_sizes sizes{2, 1};
  const std::vector<float> parameters{300.0F, -300.0F, 0.0F, 1.0F, 0.5F}, x{1.0F, 0.0F, 0.0F, 1.0F}, dr{1.0F, 1.0F};
  pass<float> p(sizes, 2);
  const auto r = p.forward(parameters, x);
  CHECK(r[0] == doctest::Approx(300.5F));
  CHECK(r[1] == doctest::Approx(0.5F));
  std::vector<float> gradient(5, 10.0F);
  kvpop::mlp_backward(kvpop::plain_product{}, sizes, parameters.data(), x.data(), 2, 2, p.tape, dr.data(),
                      gradient.data());
  const std::vector<float> want{11.0F, 10.0F, 11.0F, 310.0F, 12.0F};
  for (std::size_t i = 0; i < 5; ++i) CHECK(gradient[i] == doctest::Approx(want[i]));
}

}  // namespace
