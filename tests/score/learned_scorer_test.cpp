#include "kvpop/score/learned_scorer.hpp"

#include <doctest/doctest.h>

#include <cstring>

#include "support/scorer_cases.hpp"

namespace {

using kvpop::learned_scorer_ref;
using kvpop_test::generator;
using kvpop_test::numbers;

static_assert(std::is_trivially_copyable_v<learned_scorer_ref>);

TEST_CASE("the run-time scorer is the one it holds, bit for bit") {
  generator random(340);
  const kvpop::scorer_input input{2, 9, 8};
  const numbers x = kvpop_test::draw(random, 20 * 17, 1.0);

  const kvpop_test::mlp_case mlp = kvpop_test::mlp_case::random(random, input, 11);
  const learned_scorer_ref a = mlp.ref();
  CHECK(a.kind() == kvpop::scorer_kind::mlp);
  CHECK(a.memory_size() == 0);
  CHECK(a.delay() == 0);
  CHECK(a.kv_heads() == 2);
  CHECK(a.key_dim() == 9);
  CHECK(a.value_dim() == 8);
  CHECK(a.log_gamma(1) == 0.0F);
  a.reset(nullptr);
  a.observe(0, 0, x.data(), nullptr);
  CHECK(a.score(1, 0, x.data(), nullptr) == mlp.ref().score(1, 0, x.data(), nullptr));

  const kvpop_test::mlstm_case mlstm = kvpop_test::mlstm_case::random(random, input, 5, 7);
  const learned_scorer_ref b = mlstm.ref(3);
  CHECK(b.kind() == kvpop::scorer_kind::mlstm);
  CHECK(b.memory_size() == 5 * 7 + 5 + 1);
  CHECK(b.delay() == 3);
  CHECK(b.kv_heads() == 2);
  CHECK(b.key_dim() == 9);
  CHECK(b.value_dim() == 8);
  CHECK(b.log_gamma(1) == 0.0F);
  numbers one(41);
  numbers two(41);
  const numbers want = kvpop_test::run_scorer(mlstm.ref(3), 1, x.data(), 17, 20, one.data());
  const numbers got = kvpop_test::run_scorer(b, 1, x.data(), 17, 20, two.data());
  CHECK(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)) == 0);
  CHECK(std::memcmp(one.data(), two.data(), one.size() * sizeof(float)) == 0);
}

}  // namespace
