#pragma once

#include <limits>
#include <type_traits>

#include "kvpop/cache/cache_ref.hpp"  // head_state, budget
#include "kvpop/cache/eviction.hpp"   // eviction
#include "kvpop/score/scorer.hpp"     // scorer, observe and score
#include "kvpop/select/pop.hpp"       // pop
#include "kvpop/select/priority.hpp"  // fold_decay

KVPOP_NAMESPACE_BEGIN

/// Rounds n numbers to the cache's type.
template <class T, class In>
void round_to(const In* source, T* target, index_t n) noexcept {
  for (index_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<In, T>) {
      target[i] = source[i];
    } else {
      target[i] = scalar_traits<T>::from_float(scalar_traits<In>::to_float(source[i]));
    }
  }
}

/// Where the key and value of a token stand now.
template <class T>
struct stored_token {
  const T* key;    // [key_dim]
  const T* value;  // [value_dim]
};

/// What a scorer sees of a stored token: x = [key ; value] as floats.
template <index_t KeyDim, index_t ValueDim, class T>
void widen_token(const stored_token<T>& token, float* x) noexcept {
  for (index_t i = 0; i < KeyDim; ++i) {
    x[i] = scalar_traits<T>::to_float(token.key[i]);
  }
  for (index_t i = 0; i < ValueDim; ++i) {
    x[KeyDim + i] = scalar_traits<T>::to_float(token.value[i]);
  }
}

/// The bookkeeping of one token of one head: observe, score, evict, take a slot. Everything of the step but the copy of
/// its key and value, which a chunk must delay until its queries have seen what the chunk evicts.
///
/// Order as score/scorer.hpp lays down; method: docs/method.md section 2. noexcept, no allocation, O(slots).
template <class T, index_t KeyDim, index_t ValueDim, scorer Scorer>
class token_placer {
 public:
  token_placer(const head_state<T>& head, const budget& limits, const Scorer& scorer, index_t index) noexcept
      : head_(head), budget_(limits), scorer_(scorer), index_(index) {}

  /// Places the token of position q and returns the slot it takes; `gone` is what left that slot. `stored(t, slot)`
  /// gives the `stored_token` of position t, which is q itself (slot -1) or a token that has been placed (its slot).
  template <class Stored>
  index_t place(index_t q, const Stored& stored, eviction& gone) noexcept {
    const double own = score(q, stored);
    const index_t slot = take_slot(q, gone);
    head_.positions[slot] = q;
    head_.priorities[slot] = own;
    head_.pinned[slot] = 0;
    head_.ring[q % budget_.window] = static_cast<std::int32_t>(slot);
    return slot;
  }

 private:
  /// Observes q and scores q - delay. Returns the priority that q itself starts with.
  template <class Stored>
  double score(index_t q, const Stored& stored) noexcept {
    if (q == 0) {
      reset_memory(scorer_, head_.memory);
    }
    [[maybe_unused]] float x[KeyDim + ValueDim];
    if constexpr (observing_scorer<Scorer>) {
      widen_token<KeyDim, ValueDim>(stored(q, -1), x);
      scorer_.observe(index_, q, x, head_.memory);
    }
    if constexpr (scored_scorer<Scorer>) {
      const index_t t = q - delay_of(scorer_);
      if (t < 0) {
        return std::numeric_limits<double>::quiet_NaN();
      }
      const index_t slot = t == q ? -1 : head_.ring[t % budget_.window];
      widen_token<KeyDim, ValueDim>(stored(t, slot), x);
      const double priority = fold_decay(scorer_.score(index_, t, x, head_.memory), log_gamma_of(scorer_, index_), t);
      if (t == q) {
        return priority;
      }
      head_.priorities[slot] = priority;
      return std::numeric_limits<double>::quiet_NaN();
    } else {
      return 0;  // attention-based: a new token has received nothing yet
    }
  }

  /// The next empty slot, or the slot of the weakest candidate once the head is full. When it is full, the token that
  /// has just left the window is a candidate or pinned, and pins are at most topk: so there always is a candidate.
  index_t take_slot(index_t q, eviction& gone) noexcept {
    gone = {};
    if (*head_.held < head_.limit) {
      return (*head_.held)++;
    }
    const position_range candidates{budget_.sinks, q - budget_.window};
    const std::uint8_t* pinned = head_.pins == 0 ? nullptr : head_.pinned;
    const index_t slot = pop(head_.priorities, head_.positions, pinned, *head_.held, candidates);
    gone = {head_.positions[slot], slot};
    return slot;
  }

  head_state<T> head_;
  budget budget_;
  Scorer scorer_;
  index_t index_;
};

KVPOP_NAMESPACE_END
