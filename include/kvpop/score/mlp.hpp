#pragma once

#include "kvpop/score/matvec.hpp"        // matvec, dot_double
#include "kvpop/score/scorer_input.hpp"  // scorer_input
#include "kvpop/score/sigmoid.hpp"       // sigmoid

KVPOP_NAMESPACE_BEGIN

/// Parameters of an MLP scorer, owned elsewhere. X = key_dim + value_dim.
struct mlp_parameters {
  index_t hidden = 0;
  const float* w1 = nullptr;         ///< [kv_heads, hidden, X]
  const float* b1 = nullptr;         ///< [kv_heads, hidden]
  const float* w2 = nullptr;         ///< [kv_heads, hidden]
  const float* b2 = nullptr;         ///< [kv_heads]
  const float* log_gamma = nullptr;  ///< [kv_heads], score/decay.hpp; null: no decay
};

/// KVpop_mlp: r = w2 . silu(w1 x + b1) + b2 for each KV head, stateless (KVpop, arXiv 2607.05061; docs/method.md
/// section 4). A trivially copyable reference to one layer's parameters.
///
/// One score reads hidden * (X + 2) floats of parameters and allocates nothing; its scratch is `max_hidden` floats of
/// stack.
class mlp_ref {
 public:
  static constexpr index_t max_hidden = index_t{1} << 12;

  /// Throws `error` unless sizes are within their limits, parameters are there and delay >= 0.
  mlp_ref(const scorer_input& input, const mlp_parameters& parameters, index_t delay = 0)
      : input_(input), p_(parameters), delay_(delay) {
    input.validate();
    expects(p_.hidden >= 1 && p_.hidden <= max_hidden, "mlp: hidden", p_.hidden, "in 1 .. 4096");
    expects(delay >= 0, "mlp: delay", delay, "at least 0");
    if (p_.w1 == nullptr || p_.b1 == nullptr || p_.w2 == nullptr || p_.b2 == nullptr) [[unlikely]] {
      fail("mlp: a parameter is null");
    }
  }

  [[nodiscard]] index_t kv_heads() const noexcept { return input_.kv_heads; }
  [[nodiscard]] index_t key_dim() const noexcept { return input_.key_dim; }
  [[nodiscard]] index_t value_dim() const noexcept { return input_.value_dim; }
  [[nodiscard]] index_t delay() const noexcept { return delay_; }
  [[nodiscard]] float log_gamma(index_t head) const noexcept {
    return p_.log_gamma == nullptr ? 0.0F : p_.log_gamma[head];
  }

  /// The score of a token. x: [X].
  [[nodiscard, gnu::noinline]] float score(index_t head, index_t /*position*/, const float* x,
                                           const float* /*memory*/) const noexcept {
    float a[max_hidden];  // [hidden] w1 x + b1, then silu of it
    const index_t n = input_.size();
    const float* b1 = p_.b1 + head * p_.hidden;
    matvec(p_.w1 + head * p_.hidden * n, p_.hidden, n, x, a);
    for (index_t i = 0; i < p_.hidden; i += simd::lanes) {
      const index_t rest = p_.hidden - i;
      if (rest >= simd::lanes) {
        const simd::vec z = simd::load(a + i) + simd::load(b1 + i);
        simd::store(a + i, z * sigmoid(z));
      } else {
        const simd::vec z = simd::load_first(a + i, rest) + simd::load_first(b1 + i, rest);
        simd::store_first(a + i, z * sigmoid(z), rest);
      }
    }
    return static_cast<float>(dot_double(p_.w2 + head * p_.hidden, a, p_.hidden) + static_cast<double>(p_.b2[head]));
  }

 private:
  scorer_input input_;
  mlp_parameters p_;
  index_t delay_;
};

KVPOP_NAMESPACE_END
