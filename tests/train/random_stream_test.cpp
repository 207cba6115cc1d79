#include "kvpop/train/random_stream.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "support/generators.hpp"  // generator, draws

using kvpop::index_t;
using kvpop::random_stream;

namespace {

TEST_CASE("splitmix64 as published, from seed 1234567") {
  random_stream s(1234567);
  CHECK(s.bits() == 6457827717110365317U);
  CHECK(s.bits() == 3203168211198807973U);
  CHECK(s.bits() == 9817491932198370423U);
  CHECK(s.bits() == 4593380528125082431U);
}

TEST_CASE("a stream goes on from its state") {
  random_stream a(5);
  a.bits();
  random_stream b(a.state());
  for (int i = 0; i < 10; ++i) CHECK(a.bits() == b.bits());
}

TEST_CASE("a sample is distinct elements, all of them when as many are wanted, the same for the same stream") {
  kvpop_test::generator random(850);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const index_t count = random.integer(0, 30), wanted = random.integer(0, 40);
    std::vector<int> x(static_cast<std::size_t>(count));
    std::iota(x.begin(), x.end(), 100);
    std::vector<int> y = x;
    const std::uint64_t seed = random.bits();
    random_stream a(seed), b(seed);
    const index_t taken = kvpop::sample(a, x.data(), count, wanted);
    REQUIRE(taken == std::min(count, wanted));
    REQUIRE(kvpop::sample(b, y.data(), count, wanted) == taken);
    REQUIRE(x == y);
    std::sort(x.begin(), x.end());
    for (index_t i = 0; i < count; ++i) REQUIRE(x[static_cast<std::size_t>(i)] == 100 + i);  // a permutation
  }
}

// Chi-square against the uniform distribution, with the 1 - 1e-6 quantile for the degrees of freedom.
double chi_square(const std::vector<int>& counts) {
  const double expected =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), 0)) / static_cast<double>(counts.size());
  double sum = 0;
  for (const int c : counts) sum += (c - expected) * (c - expected) / expected;
  return sum;
}

TEST_CASE("every element is as likely as every other, at every place of a sample") {
  std::vector<int> first(20), any(20), integers(20);
  for (std::uint64_t i = 0; i < 40000; ++i) {
    random_stream s = random_stream::of(7, i);
    std::vector<int> x(20);
    std::iota(x.begin(), x.end(), 0);
    kvpop::sample(s, x.data(), 20, 5);
    ++first[static_cast<std::size_t>(x[0])];
    for (std::size_t j = 0; j < 5; ++j) ++any[static_cast<std::size_t>(x[j])];
    ++integers[static_cast<std::size_t>(s.integer(-3, 16) + 3)];
  }
  CHECK(chi_square(first) < 65.4);  // 19 degrees of freedom
  CHECK(chi_square(any) < 65.4);
  CHECK(chi_square(integers) < 65.4);
}

TEST_CASE("streams of different seeds and numbers differ") {
  CHECK(random_stream::of(1, 2, 3).bits() != random_stream::of(1, 3, 2).bits());
  CHECK(random_stream::of(1, 0).bits() != random_stream::of(2, 0).bits());
  CHECK(random_stream::of(1, 0, 1).bits() != random_stream::of(1, 1, 0).bits());
}

}  // namespace
