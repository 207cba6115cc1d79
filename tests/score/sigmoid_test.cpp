#include "kvpop/score/sigmoid.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "support/generators.hpp"

namespace {

TEST_CASE("sigmoid of an array of any length, its tail included") {
  kvpop_test::generator random(304);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const std::int64_t n = random.integer(1, 67);
    std::vector<float> z(static_cast<std::size_t>(n) + 1);
    for (float& value : z) {
      value = static_cast<float>((random.uniform() - 0.5) * 60);
    }
    const std::vector<float> before = z;
    kvpop::sigmoid_in_place(z.data(), n);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      REQUIRE(static_cast<double>(z[i]) ==
              doctest::Approx(1.0 / (1.0 + std::exp(-static_cast<double>(before[i])))).epsilon(1e-6));
    }
    REQUIRE(z.back() == before.back());
  }
}

TEST_CASE("the ends of the line") {
  float z[6] = {1000.0F, -1000.0F, 3e38F, -3e38F, std::bit_cast<float>(0x7f800000U), std::bit_cast<float>(0xff800000U)};
  kvpop::sigmoid_in_place(z, 6);
  for (const int i : {0, 2, 4}) {
    CHECK(z[i] == 1.0F);
  }
  for (const int i : {1, 3, 5}) {
    CHECK(z[i] >= 0.0F);
    CHECK(z[i] < 1e-34F);
  }
}

}  // namespace
