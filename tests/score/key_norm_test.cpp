#include "kvpop/score/key_norm.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "support/scorer_cases.hpp"

namespace {

using kvpop_test::generator;

TEST_CASE("the score is minus the norm of the key, whatever the value") {
  generator random(301);
  for (int draw = 0; draw < kvpop_test::draws(1000); ++draw) {
    const std::int64_t key_dim = random.integer(1, 130);
    kvpop_test::numbers x =
        kvpop_test::draw(random, key_dim + random.integer(0, 9), std::exp(random.uniform() * 6 - 3));
    const kvpop::key_norm scorer(key_dim);
    const float r = scorer.score(0, 17, x.data(), nullptr);
    const double norm = std::sqrt(kvpop_test::oracle_dot(x.data(), x.data(), key_dim));
    REQUIRE(static_cast<double>(r) == doctest::Approx(-norm).epsilon(1e-6));
    for (std::size_t i = static_cast<std::size_t>(key_dim); i < x.size(); ++i) {
      x[i] = std::bit_cast<float>(0x7fc00000U);
    }
    REQUIRE(scorer.score(3, 4, x.data(), nullptr) == r);
  }
}

TEST_CASE("keys that are not finite") {
  const kvpop::key_norm scorer(3);
  const auto bits_of = [&](float value) {
    const float x[3] = {1.0F, value, 2.0F};
    return std::bit_cast<std::uint32_t>(scorer.score(0, 0, x, nullptr));
  };
  CHECK((bits_of(std::bit_cast<float>(0x7fc00000U)) & 0x7fffffffU) > 0x7f800000U);  // NaN: ordered below every number
  CHECK(bits_of(std::bit_cast<float>(0x7f800000U)) == 0xff800000U);
  CHECK(bits_of(std::bit_cast<float>(0xff800000U)) == 0xff800000U);
  CHECK(bits_of(1e30F) == 0xff800000U);
}

TEST_CASE("a key has at least one component") {
  CHECK(kvpop::key_norm(1).key_dim() == 1);
  CHECK_THROWS_WITH_AS(kvpop::key_norm(0), "kvpop: key_norm: key_dim is 0; it must be at least 1", kvpop::error);
}

}  // namespace
