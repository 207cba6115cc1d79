#include "kvpop/score/decay.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "kvpop/select/priority.hpp"
#include "support/generators.hpp"
#include "support/golden.hpp"

namespace {

TEST_CASE("priorities of the golden chains are exact given r and g") {
  for (const std::string name : {"chain_mlp", "chain_mlstm"}) {
    const auto g = golden::tensor<double>(name + ".g");
    const auto r = golden::tensor<float>(name + ".r");
    const auto priority = golden::tensor<double>(name + ".priority");
    for (std::int64_t h = 0; h < r.shape[0]; ++h) {
      const float log_gamma = kvpop::log_gamma_from(static_cast<float>(g.values[static_cast<std::size_t>(h)]));
      for (std::int64_t t = 0; t < r.shape[1]; ++t) {
        REQUIRE(kvpop::fold_decay(r.row(h)[t], log_gamma, t) == priority.row(h)[t]);
      }
    }
  }
}

TEST_CASE("log gamma is -softplus(g), rounded once") {
  kvpop_test::generator random(302);
  for (int draw = 0; draw < kvpop_test::draws(10000); ++draw) {
    const auto g = static_cast<float>((random.uniform() - 0.5) * 80);
    const float decay = kvpop::log_gamma_from(g);
    const long double exact = -std::log1p(std::exp(static_cast<long double>(g)));
    REQUIRE(decay <= 0.0F);
    // Half a unit in the last place of a float, and a little for the double before it.
    REQUIRE(std::abs(static_cast<long double>(decay) - exact) <= std::abs(exact) * 0x1.0001p-24L);
  }
  CHECK(kvpop::log_gamma_from(0.0F) == -std::log(2.0F));
  CHECK(kvpop::log_gamma_from(1e30F) == -1e30F);
  CHECK(kvpop::log_gamma_from(-200.0F) == 0.0F);
  CHECK(kvpop::log_gamma_from(3e38F) == -3e38F);
}

}  // namespace
