#include "qwen3/distribution.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

namespace {

// KL(p || q) of two rows of logits in double, by the definition.
double kl_of(const float* p, const float* q, std::size_t n) {
  double sum_p = 0, sum_q = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum_p += std::exp(static_cast<double>(p[i]));
    sum_q += std::exp(static_cast<double>(q[i]));
  }
  double kl = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double a = std::exp(static_cast<double>(p[i])) / sum_p, b = std::exp(static_cast<double>(q[i])) / sum_q;
    kl += a * std::log(a / b);
  }
  return kl;
}

}  // namespace

TEST_CASE("KL is that of the definition, at every size and shift") {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal(0, 3);
  for (const std::size_t vocabulary : {1U, 2U, 7U, 16U, 33U, 768U, 1025U, 5003U}) {
    constexpr std::size_t rows = 5;
    std::vector<float> full(rows * vocabulary), other(full.size());
    for (std::size_t i = 0; i < full.size(); ++i) {
      full[i] = normal(generator);
      other[i] = full[i] + 0.3F * normal(generator);
    }
    for (std::size_t i = 0; i < full.size(); ++i) full[i] += 100, other[i] -= 200;  // a shift changes nothing
    const std::vector<float> kept = full, moved = other;
    qwen3::reference_distributions reference;
    reference.set({}, full, rows, static_cast<std::int64_t>(vocabulary));
    std::vector<double> kl(rows);
    std::vector<std::int64_t> choices(rows);
    reference.compare({}, other.data(), kl.data(), choices.data());
    for (std::size_t r = 0; r < rows; ++r) {
      CAPTURE(vocabulary);
      const float* p = kept.data() + r * vocabulary;
      CHECK(kl[r] == doctest::Approx(kl_of(p, moved.data() + r * vocabulary, vocabulary)).epsilon(1e-3).scale(1e-3));
      CHECK(choices[r] == qwen3::first_choice({moved.data() + r * vocabulary, vocabulary}));
      CHECK(reference.choice(static_cast<std::int64_t>(r)) == qwen3::first_choice({p, vocabulary}));
    }
  }
}

TEST_CASE("equal distributions have no divergence, and of equal logits the first is the choice") {
  std::vector<float> full{1, 4, 4, 2, 0, 0};
  const std::vector<float> same = full;
  qwen3::reference_distributions reference;
  reference.set({}, full, 2, 3);
  double kl[2];
  std::int64_t choices[2];
  reference.compare({}, same.data(), kl, choices);
  CHECK(kl[0] < 1e-6);
  CHECK(kl[1] < 1e-6);
  CHECK(choices[0] == 1);
  CHECK(choices[1] == 0);
}
