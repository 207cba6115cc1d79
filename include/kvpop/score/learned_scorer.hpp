#pragma once

#include <cstdint>

#include "kvpop/score/mlp.hpp"    // mlp_ref
#include "kvpop/score/mlstm.hpp"  // mlstm_ref

KVPOP_NAMESPACE_BEGIN

/// What a scorer file holds.
enum class scorer_kind : std::uint8_t { mlp, mlstm };

/// Its name in files and messages.
[[nodiscard]] constexpr const char* name_of(scorer_kind kind) noexcept {
  return kind == scorer_kind::mlp ? "mlp" : "mlstm";
}

/// A learned scorer whose kind is known at run time only: one layer of a scorer file. A trivially copyable value like the
/// two it may be, with the same scores.
class learned_scorer_ref {
 public:
  learned_scorer_ref(const mlp_ref& scorer) noexcept : kind_(scorer_kind::mlp), mlp_(scorer) {}        // NOLINT
  learned_scorer_ref(const mlstm_ref& scorer) noexcept : kind_(scorer_kind::mlstm), mlstm_(scorer) {}  // NOLINT

  [[nodiscard]] scorer_kind kind() const noexcept { return kind_; }

  [[nodiscard]] index_t kv_heads() const noexcept { return is_mlp() ? mlp_.kv_heads() : mlstm_.kv_heads(); }
  [[nodiscard]] index_t key_dim() const noexcept { return is_mlp() ? mlp_.key_dim() : mlstm_.key_dim(); }
  [[nodiscard]] index_t value_dim() const noexcept { return is_mlp() ? mlp_.value_dim() : mlstm_.value_dim(); }
  [[nodiscard]] index_t delay() const noexcept { return is_mlp() ? mlp_.delay() : mlstm_.delay(); }
  [[nodiscard]] index_t memory_size() const noexcept { return is_mlp() ? 0 : mlstm_.memory_size(); }
  [[nodiscard]] float log_gamma(index_t head) const noexcept {
    return is_mlp() ? mlp_.log_gamma(head) : mlstm_.log_gamma(head);
  }

  void reset(float* memory) const noexcept {
    if (!is_mlp()) {
      mlstm_.reset(memory);
    }
  }
  void observe(index_t head, index_t position, const float* x, float* memory) const noexcept {
    if (!is_mlp()) {
      mlstm_.observe(head, position, x, memory);
    }
  }
  [[nodiscard]] float score(index_t head, index_t position, const float* x, const float* memory) const noexcept {
    return is_mlp() ? mlp_.score(head, position, x, memory) : mlstm_.score(head, position, x, memory);
  }

 private:
  [[nodiscard]] bool is_mlp() const noexcept { return kind_ == scorer_kind::mlp; }

  scorer_kind kind_;
  union {
    mlp_ref mlp_;
    mlstm_ref mlstm_;
  };
};

KVPOP_NAMESPACE_END
