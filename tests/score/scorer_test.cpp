#include "kvpop/score/scorer.hpp"

#include <doctest/doctest.h>

#include "kvpop/score/h2o.hpp"
#include "kvpop/score/key_norm.hpp"
#include "kvpop/score/learned_scorer.hpp"
#include "kvpop/score/random.hpp"
#include "kvpop/score/recency.hpp"
#include "kvpop/score/replay.hpp"
#include "kvpop/score/snapkv.hpp"
#include "kvpop/score/tova.hpp"

namespace {

using namespace kvpop;

static_assert(scored_scorer<recency> && scored_scorer<random_scorer> && scored_scorer<key_norm> &&
              scored_scorer<replay>);
static_assert(scored_scorer<mlp_ref> && scored_scorer<mlstm_ref> && scored_scorer<learned_scorer_ref>);
static_assert(attending_scorer<tova> && attending_scorer<h2o> && attending_scorer<snapkv>);
static_assert(!attending_scorer<recency> && !scored_scorer<tova> && !scorer<int>);
static_assert(observing_scorer<mlstm_ref> && observing_scorer<learned_scorer_ref> && !observing_scorer<mlp_ref>);
static_assert(querying_scorer<snapkv> && !querying_scorer<tova> && !querying_scorer<mlstm_ref>);
static_assert(remembering_scorer<mlstm_ref> && remembering_scorer<snapkv> && !remembering_scorer<random_scorer>);
static_assert(decaying_scorer<mlp_ref> && decaying_scorer<mlstm_ref> && !decaying_scorer<recency>);
static_assert(needs_weights<tova> && needs_weights<h2o> && !needs_weights<snapkv> && !needs_weights<mlstm_ref>);
static_assert(needs_queries<snapkv> && !needs_queries<tova> && !needs_queries<recency>);

/// A scorer that says everything about itself.
struct complete {
  [[nodiscard]] index_t delay() const noexcept { return 3; }
  [[nodiscard]] index_t memory_size() const noexcept { return 2; }
  void reset(float* memory) const noexcept { memory[0] = memory[1] = 7.0F; }
  [[nodiscard]] float score(index_t, index_t, const float*, const float*) const noexcept { return 1.0F; }
  [[nodiscard]] float log_gamma(index_t head) const noexcept { return -static_cast<float>(head); }
  [[nodiscard]] index_t kv_heads() const noexcept { return 4; }
  [[nodiscard]] index_t key_dim() const noexcept { return 5; }
  [[nodiscard]] index_t value_dim() const noexcept { return 6; }
};

/// Not noexcept: a verb's inner loop could not call it.
struct throwing {
  [[nodiscard]] float score(index_t, index_t, const float*, const float*) const { return 1.0F; }
};
static_assert(scorer<complete> && !scorer<throwing>);

TEST_CASE("what a scorer does not say has a default") {
  float memory[2] = {1.0F, 2.0F};
  CHECK(delay_of(recency{}) == 0);
  CHECK(memory_size_of(recency{}) == 0);
  CHECK(log_gamma_of(recency{}, 3) == 0.0F);
  CHECK(kv_heads_of(tova{}) == 0);
  CHECK(key_dim_of(tova{}) == 0);
  CHECK(value_dim_of(tova{}) == 0);
  reset_memory(recency{}, memory);
  CHECK(memory[0] == 1.0F);
  CHECK(memory[1] == 2.0F);
}

TEST_CASE("what a scorer says is asked of it") {
  float memory[2] = {};
  CHECK(delay_of(complete{}) == 3);
  CHECK(memory_size_of(complete{}) == 2);
  CHECK(log_gamma_of(complete{}, 3) == -3.0F);
  CHECK(kv_heads_of(complete{}) == 4);
  CHECK(key_dim_of(complete{}) == 5);
  CHECK(value_dim_of(complete{}) == 6);
  reset_memory(complete{}, memory);
  CHECK(memory[1] == 7.0F);
}

}  // namespace
