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

// -log p of one token in double; logits of any shift.
double loss_of(const float* x, std::size_t n, std::int32_t token) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += std::exp(static_cast<double>(x[i]) - static_cast<double>(x[static_cast<std::size_t>(token)]));
  return std::log(sum);
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
    std::vector<double> losses(rows);
    std::vector<std::int64_t> choices(rows);
    std::vector<std::int32_t> next;
    for (std::size_t r = 0; r < rows; ++r)
      next.push_back(r == 0 ? -1 : static_cast<std::int32_t>(generator() % vocabulary));
    reference.compare({}, other.data(), next.data(), kl.data(), losses.data(), choices.data());
    CHECK(losses[0] == 0.0);
    for (std::size_t r = 1; r < rows; ++r) {
      CHECK(losses[r] == doctest::Approx(loss_of(moved.data() + r * vocabulary, vocabulary, next[r])).epsilon(1e-4));
      CHECK(reference.loss(static_cast<std::int64_t>(r), next[r]) ==
            doctest::Approx(loss_of(kept.data() + r * vocabulary, vocabulary, next[r])).epsilon(1e-4));
    }
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
  double kl[2], losses[2];
  std::int64_t choices[2];
  const std::int32_t next[2] = {1, 2};
  reference.compare({}, same.data(), next, kl, losses, choices);
  CHECK(kl[0] < 1e-6);
  CHECK(kl[1] < 1e-6);
  CHECK(choices[0] == 1);
  CHECK(choices[1] == 0);
}
