#pragma once

#include <algorithm>
#include <variant>
#include <vector>

#include "kvpop/cache/budget.hpp"    // budget
#include "kvpop/score/key_norm.hpp"  // key_norm
#include "kvpop/score/mlp.hpp"       // mlp_ref
#include "kvpop/score/mlstm.hpp"     // mlstm_ref
#include "kvpop/score/random.hpp"    // random_scorer
#include "kvpop/score/recency.hpp"   // recency
#include "kvpop/score/replay.hpp"    // replay
#include "support/generators.hpp"    // generator
#include "support/probe_scorer.hpp"  // echo_scorer, memory_scorer

/// Every scorer that gives scores, with random parameters: for laws that hold for all of them.
namespace kvpop_test {

/// A scorer behind function pointers: laws with many shapes are compiled once and not once a scorer.
struct erased_scorer {
  struct functions {
    index_t (*delay)(const void*) noexcept;
    index_t (*memory_size)(const void*) noexcept;
    void (*reset)(const void*, float*) noexcept;
    void (*observe)(const void*, index_t, index_t, const float*, float*) noexcept;
    float (*score)(const void*, index_t, index_t, const float*, const float*) noexcept;
    float (*log_gamma)(const void*, index_t) noexcept;
  };

  const void* object;
  const functions* call;

  [[nodiscard]] index_t delay() const noexcept { return call->delay(object); }
  [[nodiscard]] index_t memory_size() const noexcept { return call->memory_size(object); }
  void reset(float* memory) const noexcept { call->reset(object, memory); }
  void observe(index_t head, index_t position, const float* x, float* memory) const noexcept {
    call->observe(object, head, position, x, memory);
  }
  [[nodiscard]] float score(index_t head, index_t position, const float* x, const float* memory) const noexcept {
    return call->score(object, head, position, x, memory);
  }
  [[nodiscard]] float log_gamma(index_t head) const noexcept { return call->log_gamma(object, head); }
};

template <class S>
inline constexpr erased_scorer::functions functions_of = {
    [](const void* s) noexcept { return kvpop::delay_of(*static_cast<const S*>(s)); },
    [](const void* s) noexcept { return kvpop::memory_size_of(*static_cast<const S*>(s)); },
    [](const void* s, float* memory) noexcept { kvpop::reset_memory(*static_cast<const S*>(s), memory); },
    []([[maybe_unused]] const void* s, [[maybe_unused]] index_t head, [[maybe_unused]] index_t position,
       [[maybe_unused]] const float* x, [[maybe_unused]] float* memory) noexcept {
      if constexpr (kvpop::observing_scorer<S>) {
        static_cast<const S*>(s)->observe(head, position, x, memory);
      }
    },
    [](const void* s, index_t head, index_t position, const float* x, const float* memory) noexcept {
      return static_cast<const S*>(s)->score(head, position, x, memory);
    },
    [](const void* s, index_t head) noexcept { return kvpop::log_gamma_of(*static_cast<const S*>(s), head); }};

/// Owns one scorer of a random kind and its parameters.
class any_scorer {
 public:
  static constexpr index_t kinds = 8;

  any_scorer(generator& random, const kvpop::budget& limits, index_t kv_heads, index_t key_dim, index_t value_dim)
      : random_(random), input_{kv_heads, key_dim, value_dim} {
    lag_ = random.pick<index_t>({0, std::min<index_t>(1, limits.window), limits.window - 1, limits.window});
    hidden_ = random.pick<index_t>({1, 3, 5, 17});
    inner_ = random.pick<index_t>({1, 2, 3, 7, 19});
    for (index_t h = 0; h < kv_heads; ++h) {
      decay_.push_back(-static_cast<float>(random.uniform()));
    }
    choose(random.integer(0, kinds - 1), random.chance(0.5) ? decay_.data() : nullptr);
  }
  any_scorer(const any_scorer&) = delete;
  any_scorer& operator=(const any_scorer&) = delete;

  /// Calls f(scorer) with the scorer's own type.
  template <class F>
  void visit(F&& f) const {
    std::visit(f, scorer_);
  }

  /// The same scorer behind function pointers; valid while this object lives.
  [[nodiscard]] erased_scorer erased() const {
    return std::visit(
        [](const auto& s) {
          return erased_scorer{&s, &functions_of<std::remove_cvref_t<decltype(s)>>};
        },
        scorer_);
  }

 private:
  static constexpr index_t replayed = 37;  // tokens whose death is given; later ones never die

  void choose(index_t kind, const float* decay) {
    switch (kind) {
      case 0:
        break;
      case 1:
        scorer_ = kvpop::random_scorer(7, 3);
        break;
      case 2:
        scorer_ = kvpop::key_norm(input_.key_dim);
        break;
      case 3:
        scorer_ = kvpop::replay({deaths(), {input_.kv_heads, replayed}});
        break;
      case 4:
        scorer_ = echo_scorer{lag_, decay};
        break;
      case 5:
        scorer_ = memory_scorer{lag_, decay, input_.size()};
        break;
      case 6:
        scorer_ = mlp(decay);
        break;
      default:
        scorer_ = mlstm(decay);
        break;
    }
  }

  const float* weights(index_t count) {
    std::vector<float>& w = parameters_.emplace_back();
    for (index_t i = 0; i < count; ++i) {
      w.push_back(0.4F * random_.normal());
    }
    return w.data();
  }

  const index_t* deaths() {
    for (index_t i = 0; i < input_.kv_heads * replayed; ++i) {
      deaths_.push_back(random_.integer(0, 2 * replayed));
    }
    return deaths_.data();
  }

  kvpop::mlp_ref mlp(const float* decay) {
    const index_t rows = input_.kv_heads * hidden_;
    return {input_,
            {hidden_, weights(rows * input_.size()), weights(rows), weights(rows), weights(input_.kv_heads), decay},
            lag_};
  }

  kvpop::mlstm_ref mlstm(const float* decay) {
    const index_t heads = input_.kv_heads;
    const index_t n = input_.size();
    kvpop::mlstm_parameters p;
    p.dk = inner_;
    p.dv = hidden_;
    p.wk = weights(heads * p.dk * n);
    p.wq = weights(heads * p.dk * n);
    p.wv = weights(heads * p.dv * n);
    p.wo = weights(heads * p.dv * n);
    p.wf = weights(heads * n);
    p.wi = weights(heads * n);
    p.a = weights(heads * n);
    p.wout = weights(heads * p.dv);
    p.bf = weights(heads);
    p.bi = weights(heads);
    p.b = weights(heads);
    p.log_gamma = decay;
    return {input_, p, lag_};
  }

  generator& random_;
  kvpop::scorer_input input_;
  index_t lag_;
  index_t hidden_;
  index_t inner_;
  std::vector<float> decay_;
  std::vector<index_t> deaths_;
  std::vector<std::vector<float>> parameters_;
  std::variant<kvpop::recency, kvpop::random_scorer, kvpop::key_norm, kvpop::replay, echo_scorer, memory_scorer,
               kvpop::mlp_ref, kvpop::mlstm_ref>
      scorer_;
};

}  // namespace kvpop_test
