#pragma once

#include <concepts>
#include <type_traits>

#include "kvpop/core/config.hpp"  // index_t

/// @file
/// What a scorer is. It says how much a token will matter; it never decides who stays: the cache folds its score and its
/// decay into a priority (select/priority.hpp) and evicts the lowest (select/order.hpp).
///
/// A scorer is a trivially copyable value for one layer, passed by value to `append` and `prefill`. It owns nothing: a
/// learned scorer points at parameters that its owner (score/scorer_file.hpp) keeps. It implements the parts it needs:
///
///     member                                                   absent means    called
///     index_t delay()                                          0
///     index_t memory_size()                                    0               floats per (sequence, kv head)
///     void reset(memory)                                       nothing         when a sequence starts
///     void observe(head, position, x, memory)                  nothing         once a token, in order of positions
///     float score(head, position, x, memory)                   not scored      once a token, after `observe`
///     float log_gamma(head)                                    0, no decay     with every score
///     double attended(priority, weight)                        not attending   once a held slot, after each attention
///     void note_query(head, position, q, memory)               nothing         once a token, before its attention
///     index_t kv_heads(), key_dim(), value_dim()               0, any          when a verb checks its arguments
///
/// head         KV head of this layer
/// position     absolute position of the token
/// x            [key_dim + value_dim], the token's key, RoPE applied, then its value, as stored: rounded to the cache's
///              type. Not aligned.
/// memory       [memory_size()], the scorer's state of one sequence and head. Part of the sequence: saved, copied and
///              reset with it. Not aligned; the members of one (sequence, head) never run at once.
/// q            [group, key_dim], the queries of the heads that share this KV head, RoPE applied
///
/// Order, for one sequence and head, at the token of position q (docs/method.md sections 2 and 4):
///
///  1. `observe(q)`; then, when q >= delay, `score` of the token q - delay, from a memory that has absorbed 0 .. q. Its
///     priority is fma(-position, log_gamma, score) in double and is written once. Every token is observed and scored,
///     sinks and pinned ones too. 0 <= delay <= window, so a score is there before its token can lose.
///  2. The cache evicts, if it is full, and stores q.
///  3. `note_query(q)` and attention. An attending scorer has `attended` applied to every held slot with the slot's weight:
///     the softmax probability of its key, mean over the group. A new token's priority starts at 0.
///
/// All members are const and noexcept; equal arguments give equal bits, whatever the chunking, batch or thread: the
/// sequence's place in a batch is deliberately not among them. A NaN score is allowed and ordered below every number.

KVPOP_NAMESPACE_BEGIN

/// What every scorer is: a value that can be handed to another thread or device as bytes.
template <class S>
concept scorer_value = std::is_trivially_copyable_v<S> && std::is_object_v<S>;

/// A scorer that gives each token one score: all but the attention-based ones.
template <class S>
concept scored_scorer = scorer_value<S> && requires(const S& s, index_t i, const float* x, const float* memory) {
  { s.score(i, i, x, memory) }
  noexcept->std::same_as<float>;
};

/// A scorer whose priorities follow the attention weights: TOVA, H2O, SnapKV.
template <class S>
concept attending_scorer = scorer_value<S> && !scored_scorer<S> && requires(const S& s, double priority, float weight) {
  { s.attended(priority, weight) }
  noexcept->std::same_as<double>;
  { S::needs_weights } -> std::convertible_to<bool>;
  { S::needs_queries } -> std::convertible_to<bool>;
};

/// What `append` and `prefill` take.
template <class S>
concept scorer = scored_scorer<S> || attending_scorer<S>;

/// A scorer whose memory absorbs every token.
template <class S>
concept observing_scorer = scorer<S> && requires(const S& s, index_t i, const float* x, float* memory) {
  { s.observe(i, i, x, memory) }
  noexcept;
};

/// A scorer that remembers queries.
template <class S>
concept querying_scorer = scorer<S> && requires(const S& s, index_t i, const float* q, float* memory) {
  { s.note_query(i, i, q, memory) }
  noexcept;
};

/// A scorer that has memory, and so knows how a sequence starts.
template <class S>
concept remembering_scorer = scorer<S> && requires(const S& s, float* memory) {
  { s.memory_size() }
  noexcept->std::same_as<index_t>;
  { s.reset(memory) }
  noexcept;
};

/// A scorer whose scores fade with age.
template <class S>
concept decaying_scorer = scorer<S> && requires(const S& s, index_t head) {
  { s.log_gamma(head) }
  noexcept->std::same_as<float>;
};

/// Whether the priorities need each step's attention weights: many tokens at once are then refused by `append`.
template <scorer S>
inline constexpr bool needs_weights = [] {
  if constexpr (attending_scorer<S>) {
    return static_cast<bool>(S::needs_weights);
  } else {
    return false;
  }
}();

/// Whether the scorer needs each step's queries: many tokens at once are then refused by `append`.
template <scorer S>
inline constexpr bool needs_queries = [] {
  if constexpr (attending_scorer<S>) {
    return static_cast<bool>(S::needs_queries);
  } else {
    return false;
  }
}();

/// How many tokens after its own a token's score is read; 0 when the scorer does not say.
template <scorer S>
[[nodiscard]] constexpr index_t delay_of(const S& s) noexcept {
  if constexpr (requires { s.delay(); }) {
    return s.delay();
  } else {
    return 0;
  }
}

/// Floats of memory per (sequence, kv head); 0 for a stateless scorer.
template <scorer S>
[[nodiscard]] constexpr index_t memory_size_of(const S& s) noexcept {
  if constexpr (remembering_scorer<S>) {
    return s.memory_size();
  } else {
    return 0;
  }
}

/// Makes `memory` that of a sequence before its first token.
template <scorer S>
constexpr void reset_memory(const S& s, float* memory) noexcept {
  if constexpr (remembering_scorer<S>) {
    s.reset(memory);
  }
}

/// log gamma of a head: at most 0, and 0 when the scorer has no decay.
template <scorer S>
[[nodiscard]] constexpr float log_gamma_of(const S& s, index_t head) noexcept {
  if constexpr (decaying_scorer<S>) {
    return s.log_gamma(head);
  } else {
    return 0.0F;
  }
}

/// KV heads the scorer was made for; 0 = any.
template <scorer S>
[[nodiscard]] constexpr index_t kv_heads_of(const S& s) noexcept {
  if constexpr (requires { s.kv_heads(); }) {
    return s.kv_heads();
  } else {
    return 0;
  }
}

/// Key dimension the scorer was made for; 0 = any.
template <scorer S>
[[nodiscard]] constexpr index_t key_dim_of(const S& s) noexcept {
  if constexpr (requires { s.key_dim(); }) {
    return s.key_dim();
  } else {
    return 0;
  }
}

/// Value dimension the scorer was made for; 0 = any.
template <scorer S>
[[nodiscard]] constexpr index_t value_dim_of(const S& s) noexcept {
  if constexpr (requires { s.value_dim(); }) {
    return s.value_dim();
  } else {
    return 0;
  }
}

KVPOP_NAMESPACE_END
