#pragma once

#include <type_traits>
#include <variant>

#include "kvpop/score/h2o.hpp"             // h2o
#include "kvpop/score/key_norm.hpp"        // key_norm
#include "kvpop/score/learned_scorer.hpp"  // learned_scorer_ref
#include "kvpop/score/random.hpp"          // random_scorer
#include "kvpop/score/recency.hpp"         // recency
#include "kvpop/score/replay.hpp"          // replay
#include "kvpop/score/scorer.hpp"          // scorer concepts
#include "kvpop/score/snapkv.hpp"          // snapkv
#include "kvpop/score/tova.hpp"            // tova

namespace qwen3 {

/// What one layer's cache is driven by.
using layer_scorer = std::variant<kvpop::recency, kvpop::random_scorer, kvpop::key_norm, kvpop::learned_scorer_ref,
                                  kvpop::replay, kvpop::tova, kvpop::h2o, kvpop::snapkv>;

/// All scorers that give a token one score behind one type, so that the cache's verbs are compiled once for them and not
/// five times. A reference to a layer_scorer, which must outlive it; costs an indirect call a token and head.
class scored_ref {
  // f of the scorer, or a default where it attends instead and never comes here.
  template <class F>
  auto visit(const F& f) const noexcept {
    return std::visit(
        [&](const auto& s) {
          if constexpr (kvpop::scored_scorer<std::remove_cvref_t<decltype(s)>>) {
            return f(s);
          } else {
            return decltype(f(std::get<0>(*scorer_)))();
          }
        },
        *scorer_);
  }

 public:
  explicit scored_ref(const layer_scorer& scorer) : scorer_(&scorer) {}

  kvpop::index_t delay() const noexcept {
    return visit([](const auto& s) { return kvpop::delay_of(s); });
  }
  kvpop::index_t memory_size() const noexcept {
    return visit([](const auto& s) { return kvpop::memory_size_of(s); });
  }
  kvpop::index_t kv_heads() const noexcept {
    return visit([](const auto& s) { return kvpop::kv_heads_of(s); });
  }
  kvpop::index_t key_dim() const noexcept {
    return visit([](const auto& s) { return kvpop::key_dim_of(s); });
  }
  kvpop::index_t value_dim() const noexcept {
    return visit([](const auto& s) { return kvpop::value_dim_of(s); });
  }
  float log_gamma(kvpop::index_t head) const noexcept {
    return visit([=](const auto& s) { return kvpop::log_gamma_of(s, head); });
  }
  void reset(float* memory) const noexcept {
    visit([=](const auto& s) { kvpop::reset_memory(s, memory); });
  }
  void observe(kvpop::index_t head, kvpop::index_t position, const float* x, float* memory) const noexcept {
    if (const auto* learned = std::get_if<kvpop::learned_scorer_ref>(scorer_)) {
      learned->observe(head, position, x, memory);
    }
  }
  float score(kvpop::index_t head, kvpop::index_t position, const float* x, const float* memory) const noexcept {
    return visit([=](const auto& s) { return s.score(head, position, x, memory); });
  }

 private:
  const layer_scorer* scorer_;
};

/// Calls f with the scorer as the verbs take it: scored_ref, tova, h2o or snapkv.
template <class F>
void visit_scorer(const layer_scorer& scorer, const F& f) {
  std::visit(
      [&](const auto& s) {
        if constexpr (kvpop::attending_scorer<std::remove_cvref_t<decltype(s)>>) {
          f(s);
        } else {
          f(scored_ref(scorer));
        }
      },
      scorer);
}

}  // namespace qwen3
