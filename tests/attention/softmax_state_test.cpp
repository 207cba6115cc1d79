#include "kvpop/attention/softmax_state.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/generators.hpp"  // generator, draws

using kvpop::index_t;
using kvpop_test::generator;

namespace {

constexpr index_t dim = 21;
using state = kvpop::softmax_state<dim>;

// The state of some keys, formed in double from the definition.
state state_of(const std::vector<double>& logits, const std::vector<std::vector<double>>& values) {
  state s;
  double largest = -std::numeric_limits<double>::infinity();
  for (const double l : logits) largest = std::fmax(largest, l);
  double sum = 0;
  std::vector<double> acc(dim, 0.0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    sum += std::exp(logits[i] - largest);
    for (std::size_t d = 0; d < dim; ++d) acc[d] += std::exp(logits[i] - largest) * values[i][d];
  }
  if (logits.empty()) return s;
  s.max = static_cast<float>(largest);
  s.sum = static_cast<float>(sum);
  for (std::size_t d = 0; d < dim; ++d) s.acc[d] = static_cast<float>(acc[d]);
  return s;
}

// Of the members: what lies between the last of them and the end is nobody's.
bool same_bits(const state& a, const state& b) {
  return std::memcmp(a.acc, b.acc, sizeof(a.acc)) == 0 && std::memcmp(&a.max, &b.max, sizeof(a.max)) == 0 &&
         std::memcmp(&a.sum, &b.sum, sizeof(a.sum)) == 0;
}

}  // namespace

TEST_CASE("a state is trivially copyable, aligned, and padded to whole vectors") {
  static_assert(std::is_trivially_copyable_v<state>);
  static_assert(alignof(state) == 64);
  static_assert(kvpop::padded_dim(1) == kvpop::simd::lanes);
  static_assert(kvpop::padded_dim(kvpop::simd::lanes) == kvpop::simd::lanes);
  static_assert(kvpop::padded_dim(kvpop::simd::lanes + 1) == 2 * kvpop::simd::lanes);
  CHECK(sizeof(state) % 64 == 0);
}

TEST_CASE("the empty state: zeros and -infinity, and the neutral element bit for bit") {
  const state empty;
  CHECK(empty.is_empty());
  float out[dim];
  CHECK(kvpop::is_no_logit(empty.finish(out)));
  for (const float x : out) CHECK(x == 0.0F);

  const state some = state_of({0.5, -2.0}, {std::vector<double>(dim, 1.25), std::vector<double>(dim, -0.75)});
  state left;
  left.merge(some);
  CHECK(same_bits(left, some));
  state right = some;
  right.merge(empty);
  CHECK(same_bits(right, some));
  state both;
  both.merge(empty);
  CHECK(both.is_empty());
}

TEST_CASE("merging the states of any parts in any grouping gives the softmax of the whole") {
  generator random(11);
  const int count = kvpop_test::draws(1000);
  for (int draw = 0; draw < count; ++draw) {
    std::vector<double> logits[3];
    std::vector<std::vector<double>> values[3];
    std::vector<double> all;
    std::vector<std::vector<double>> all_values;
    for (int part = 0; part < 3; ++part) {
      const std::int64_t keys = random.integer(0, 5);
      for (std::int64_t i = 0; i < keys; ++i) {
        logits[part].push_back((random.uniform() - 0.5) * random.pick({1.0, 30.0, 2e4}));
        values[part].emplace_back();
        for (index_t d = 0; d < dim; ++d) values[part].back().push_back(random.uniform() - 0.5);
        all.push_back(static_cast<double>(static_cast<float>(logits[part].back())));
        logits[part].back() = all.back();
        all_values.push_back(values[part].back());
      }
    }
    const state s[3] = {state_of(logits[0], values[0]), state_of(logits[1], values[1]), state_of(logits[2], values[2])};
    state left = s[0];
    left.merge(s[1]);
    left.merge(s[2]);
    state right = s[1];
    right.merge(s[2]);
    state outer = s[0];
    outer.merge(right);
    float out_left[dim];
    float out_outer[dim];
    const float lse_left = left.finish(out_left);
    const float lse_outer = outer.finish(out_outer);
    if (all.empty()) {
      CHECK(kvpop::is_no_logit(lse_left));
      CHECK(kvpop::is_no_logit(lse_outer));
      continue;
    }
    const state whole = state_of(all, all_values);
    const double lse = static_cast<double>(whole.max) + std::log(static_cast<double>(whole.sum));
    CHECK(std::fabs(static_cast<double>(lse_left) - lse) <= 1e-6 * (1 + std::fabs(lse)));
    CHECK(std::fabs(static_cast<double>(lse_outer) - lse) <= 1e-6 * (1 + std::fabs(lse)));
    for (std::size_t d = 0; d < dim; ++d) {
      const double want = static_cast<double>(whole.acc[d]) / static_cast<double>(whole.sum);
      CHECK(std::fabs(static_cast<double>(out_left[d]) - want) <= 1e-6);
      CHECK(std::fabs(static_cast<double>(out_outer[d]) - want) <= 1e-6);
    }
  }
}

TEST_CASE("exponentiate: weights, their sum and the largest logit, whatever their number and size") {
  generator random(12);
  const int count = kvpop_test::draws(1000);
  for (int draw = 0; draw < count; ++draw) {
    const index_t n = random.integer(1, 67);
    std::vector<float> row(static_cast<std::size_t>(kvpop::padded_dim(n)), kvpop::no_logit);
    const double size = random.pick({0.1, 10.0, 1e4});
    double largest = -std::numeric_limits<double>::infinity();
    std::vector<double> logits;
    for (index_t i = 0; i < n; ++i) {
      row[static_cast<std::size_t>(i)] = static_cast<float>((random.uniform() - 0.5) * size);
      if (random.chance(0.1)) row[static_cast<std::size_t>(i)] = kvpop::no_logit;
      logits.push_back(static_cast<double>(row[static_cast<std::size_t>(i)]));
      largest = std::fmax(largest, logits.back());
    }
    float sum = -1.0F;
    const float max = kvpop::exponentiate(row.data(), n, sum);
    CHECK(static_cast<double>(max) == largest);
    double exact = 0;
    for (index_t i = 0; i < n; ++i) {
      const double e = std::isinf(largest) ? 0.0 : std::exp(logits[static_cast<std::size_t>(i)] - largest);
      exact += e;
      // the difference of two large logits is rounded before it is exponentiated
      CHECK(std::fabs(static_cast<double>(row[static_cast<std::size_t>(i)]) - e) <= 2e-7 * (1 + size) * e + 1e-37);
    }
    CHECK(std::fabs(static_cast<double>(sum) - exact) <= 3e-7 * (1 + size) * exact);
  }
}

TEST_CASE("a NaN logit makes sum and output NaN, and stays through every merge") {
  alignas(64) float row[kvpop::simd::lanes];
  for (float& x : row) x = kvpop::no_logit;
  row[0] = 1.0F;
  row[1] = std::numeric_limits<float>::quiet_NaN();
  state s;
  s.max = kvpop::exponentiate(row, 2, s.sum);
  CHECK(s.max == 1.0F);
  CHECK(std::isnan(s.sum));
  state other = state_of({50.0}, {std::vector<double>(dim, 2.0)});
  other.merge(s);
  float out[dim];
  CHECK(std::isnan(other.finish(out)));
  for (const float x : out) CHECK(std::isnan(x));
  row[0] = std::numeric_limits<float>::quiet_NaN();  // nothing but NaN: not the same as nothing
  state alone;
  for (float& x : row) x = row[0];
  alone.max = kvpop::exponentiate(row, kvpop::simd::lanes, alone.sum);
  CHECK_FALSE(alone.is_empty());
  CHECK(std::isnan(alone.finish(out)));
}

TEST_CASE("no_logit is -infinity and is told by its bits") {
  CHECK(kvpop::no_logit == -std::numeric_limits<float>::infinity());
  CHECK(kvpop::is_no_logit(-std::numeric_limits<float>::infinity()));
  CHECK_FALSE(kvpop::is_no_logit(std::numeric_limits<float>::lowest()));
  CHECK_FALSE(kvpop::is_no_logit(std::numeric_limits<float>::infinity()));
  CHECK_FALSE(kvpop::is_no_logit(std::bit_cast<float>(0xff800001U)));
}
