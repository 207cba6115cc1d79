#include "qwen3/sampler.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "files.hpp"        // message_of
#include "qwen3/error.hpp"  // usage_error

namespace {

using namespace qwen3_test;
using qwen3::sampler;
using qwen3::sampling;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

// Probabilities of the tokens, straight from the words of the header.
std::vector<double> distribution(const std::vector<float>& logits, const sampling& parameters) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (parameters.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(parameters.top_k)));
  std::vector<double> weights;
  for (const std::size_t token : order)
    weights.push_back(std::exp(static_cast<double>(logits[token]) / parameters.temperature));
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double mass = 0;
  std::size_t kept = 0;
  while (kept < order.size() && (kept == 0 || mass < parameters.top_p * total)) mass += weights[kept++];
  std::vector<double> result(logits.size());
  for (std::size_t i = 0; i < kept; ++i) result[order[i]] = weights[i] / mass;
  return result;
}

}  // namespace

TEST_CASE("temperature 0 takes the largest logit, of equal ones the lowest id") {
  sampler greedy({});
  CHECK(greedy(std::vector<float>{1, 3, 2}) == 1);
  CHECK(greedy(std::vector<float>{2, 3, 3, 3}) == 1);
  CHECK(greedy(std::vector<float>{5}) == 0);
  CHECK(greedy(std::vector<float>{-infinity, -1e30F}) == 1);
  CHECK(greedy(std::vector<float>{0, infinity}) == 1);
}

TEST_CASE("how often each token is drawn") {
  std::mt19937 random(41);
  std::normal_distribution<float> normal(0, 2);
  constexpr double ps[] = {1, 0.9, 0.5, 0.05};
  constexpr int draws = 20'000;
  for (int i = 0; i < 24; ++i) {
    std::vector<float> logits(2 + random() % 11);
    for (float& x : logits) x = std::round(normal(random));  // with ties
    const sampling parameters = {.temperature = 0.5 + 0.5 * static_cast<double>(random() % 4),
                                 .top_k = static_cast<std::int64_t>(random() % 6),
                                 .top_p = ps[random() % std::size(ps)],
                                 .seed = random()};
    const auto expected = distribution(logits, parameters);
    std::vector<int> counts(logits.size());
    sampler sample(parameters);
    for (int draw = 0; draw < draws; ++draw) ++counts[static_cast<std::size_t>(sample(logits))];
    for (std::size_t token = 0; token < logits.size(); ++token) {
      const double deviation = std::sqrt(draws * expected[token] * (1 - expected[token]));
      CHECK(std::abs(counts[token] - draws * expected[token]) <= 5 * deviation);  // and never what is not kept
    }
  }
}

TEST_CASE("one candidate is left by top_k 1, by a small top_p and by a small temperature") {
  const std::vector<float> logits = {1, 4, 4, 2};
  for (const sampling& one : {sampling{.temperature = 5, .top_k = 1}, sampling{.temperature = 1, .top_p = 1e-9},
                              sampling{.temperature = 1, .top_k = 3, .top_p = 1e-9}}) {
    sampler sample(one);
    for (int i = 0; i < 100; ++i) CHECK(sample(logits) == 1);
  }
  sampler cold({.temperature = 1e-300});
  for (int i = 0; i < 100; ++i) CHECK(cold(std::vector<float>{1, 2, 4, 3}) == 2);
}

TEST_CASE("NaN and -infinity are never drawn; infinity always") {
  sampler sample({.temperature = 1, .seed = 5});
  for (int i = 0; i < 200; ++i)
    CHECK(sample(std::vector<float>{not_a_number, 0, -infinity, not_a_number, 0.5F}) % 3 == 1);
  for (int i = 0; i < 200; ++i) CHECK(sample(std::vector<float>{0, infinity, 3}) == 1);
  CHECK(sample(std::vector<float>{-infinity, -infinity}) == 0);
}

TEST_CASE("a seed gives the same tokens, always and everywhere") {
  const std::vector<float> logits(1000, 0.0F);
  const auto drawn = [&](std::uint64_t seed) {
    sampler sample({.temperature = 1, .seed = seed});
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 6; ++i) tokens.push_back(sample(logits));
    return tokens;
  };
  CHECK(drawn(1) == drawn(1));
  CHECK(drawn(1) != drawn(2));
  // floor(1000 * (output >> 11) / 2^53) of the generator whose 10,000th output the standard states.
  std::mt19937_64 standard;
  standard.discard(9999);
  CHECK(standard() == 9981545732273789042U);
  std::mt19937_64 generator(1);
  for (const std::int32_t token : drawn(1)) {
    CHECK(token == static_cast<std::int32_t>(static_cast<double>(generator() >> 11) / 9007199254740992.0 * 1000));
  }
}

TEST_CASE("parameters out of range are named with their limits") {
  const auto refusal = [](const sampling& parameters) {
    return message_of<qwen3::usage_error>([&] { sampler{parameters}; });
  };
  CHECK(refusal({.temperature = -0.5}) == "temperature is -0.500000; it must be at least 0 and finite");
  CHECK(refusal({.temperature = std::numeric_limits<double>::infinity()}) ==
        "temperature is inf; it must be at least 0 and finite");
  CHECK(refusal({.temperature = std::numeric_limits<double>::quiet_NaN()}) ==
        "temperature is nan; it must be at least 0 and finite");
  CHECK(refusal({.top_k = -1}) == "top_k is -1; it must be at least 0 (0: all)");
  CHECK(refusal({.top_p = 0}) == "top_p is 0.000000; it must be above 0 and at most 1");
  CHECK(refusal({.top_p = 1.5}) == "top_p is 1.500000; it must be above 0 and at most 1");
  CHECK(refusal({.top_p = std::numeric_limits<double>::quiet_NaN()}) ==
        "top_p is nan; it must be above 0 and at most 1");
}
