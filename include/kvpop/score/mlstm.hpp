#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "kvpop/score/matvec.hpp"        // matvec, dot_double
#include "kvpop/score/scorer_input.hpp"  // scorer_input
#include "kvpop/score/sigmoid.hpp"       // sigmoid_in_place

KVPOP_NAMESPACE_BEGIN

/// Parameters of an mLSTM scorer, owned elsewhere. X = key_dim + value_dim; the memory is a dv x dk matrix a head.
struct mlstm_parameters {
  index_t dk = 0;
  index_t dv = 0;
  const float* wk = nullptr;         ///< [kv_heads, dk, X]
  const float* wq = nullptr;         ///< [kv_heads, dk, X]
  const float* wv = nullptr;         ///< [kv_heads, dv, X]
  const float* wo = nullptr;         ///< [kv_heads, dv, X]
  const float* wf = nullptr;         ///< [kv_heads, X]
  const float* wi = nullptr;         ///< [kv_heads, X]
  const float* a = nullptr;          ///< [kv_heads, X]
  const float* wout = nullptr;       ///< [kv_heads, dv]
  const float* bf = nullptr;         ///< [kv_heads]
  const float* bi = nullptr;         ///< [kv_heads]
  const float* b = nullptr;          ///< [kv_heads]
  const float* log_gamma = nullptr;  ///< [kv_heads], score/decay.hpp; null: no decay
};

/// KVpop: an mLSTM whose memory absorbs every token and is read for a token `delay` tokens later, recurrent form (KVpop,
/// arXiv 2607.05061; docs/method.md section 4). A trivially copyable reference to one layer's parameters.
///
///     m' = max(log f + m, log i)       log f = logsigmoid(wf.x + bf),  log i = wi.x + bi
///     C' = exp(log f + m - m') C + exp(log i - m') v k^T     k = Wk x / sqrt(dk),  v = Wv x;   n likewise with k
///     h  = C u / max(|n.u|, exp(-m), 1e-30)                  u = Wq x_t
///     r  = wout . (sigmoid(Wo x_t) * rmsnorm(h)) + a.x_t + b
///
/// Memory of one (sequence, head): C [dv, dk], n [dk], m, floats. What an exponential follows (gates, stabiliser, norm) is
/// computed in double; m is stored rounded and C and n are scaled by what was stored, so its rounding cancels.
///
/// A step (observe and score) reads (2 dk + 2 dv + 3) * X floats of parameters, reads the memory twice and writes it once.
/// It allocates nothing; its scratch is 3 * `max_state` floats of stack. A NaN in x or memory gives NaN scores until the
/// sequence is reset.
class mlstm_ref {
 public:
  static constexpr index_t max_state = index_t{1} << 10;

  /// Throws `error` unless sizes are within their limits, parameters are there and delay >= 0.
  mlstm_ref(const scorer_input& input, const mlstm_parameters& parameters, index_t delay)
      : input_(input), p_(parameters), delay_(delay) {
    input.validate();
    expects(p_.dk >= 1 && p_.dk <= max_state, "mlstm: dk", p_.dk, "in 1 .. 1024");
    expects(p_.dv >= 1 && p_.dv <= max_state, "mlstm: dv", p_.dv, "in 1 .. 1024");
    expects(delay >= 0, "mlstm: delay", delay, "at least 0");
    for (const float* p : {p_.wk, p_.wq, p_.wv, p_.wo, p_.wf, p_.wi, p_.a, p_.wout, p_.bf, p_.bi, p_.b}) {
      if (p == nullptr) [[unlikely]] {
        fail("mlstm: a parameter is null");
      }
    }
  }

  [[nodiscard]] index_t kv_heads() const noexcept { return input_.kv_heads; }
  [[nodiscard]] index_t key_dim() const noexcept { return input_.key_dim; }
  [[nodiscard]] index_t value_dim() const noexcept { return input_.value_dim; }
  [[nodiscard]] index_t delay() const noexcept { return delay_; }
  [[nodiscard]] index_t memory_size() const noexcept { return p_.dv * p_.dk + p_.dk + 1; }
  [[nodiscard]] float log_gamma(index_t head) const noexcept {
    return p_.log_gamma == nullptr ? 0.0F : p_.log_gamma[head];
  }

  /// C = 0, n = 0, m = -infinity.
  void reset(float* memory) const noexcept {
    const index_t size = memory_size();
    for (index_t i = 0; i + 1 < size; ++i) {
      memory[i] = 0.0F;
    }
    memory[size - 1] = std::bit_cast<float>(minus_infinity);
  }

  /// Absorbs one token. x: [X]. Tokens come in order, each once.
  [[gnu::noinline]] void observe(index_t head, index_t /*position*/, const float* x, float* memory) const noexcept {
    float key[max_state];    // [dk]
    float value[max_state];  // [dv]
    const index_t n = input_.size();
    matvec(p_.wk + head * p_.dk * n, p_.dk, n, x, key);
    matvec(p_.wv + head * p_.dv * n, p_.dv, n, x, value);
    const gates g = step(head, x, memory[memory_size() - 1]);
    for (index_t i = 0; i < p_.dv; ++i) {
      absorb(memory + i * p_.dk, key, g.forget, g.input * value[i]);
    }
    absorb(memory + p_.dv * p_.dk, key, g.forget, g.input);
    memory[memory_size() - 1] = g.m;
  }

  /// The score of a token, from a memory that has absorbed the token and the `delay` tokens after it. x: [X].
  [[nodiscard, gnu::noinline]] float score(index_t head, index_t /*position*/, const float* x,
                                           const float* memory) const noexcept {
    float u[max_state];     // [dk] query into the memory
    float gate[max_state];  // [dv] output gate
    float h[max_state];     // [dv] C u
    const index_t n = input_.size();
    matvec(p_.wq + head * p_.dk * n, p_.dk, n, x, u);
    matvec(p_.wo + head * p_.dv * n, p_.dv, n, x, gate);
    sigmoid_in_place(gate, p_.dv);
    matvec(memory, p_.dv, p_.dk, u, h);

    const float* normaliser = memory + p_.dv * p_.dk;
    const double stabiliser = static_cast<double>(normaliser[p_.dk]);
    const double denominator = larger(larger(std::abs(dot_double(normaliser, u, p_.dk)), std::exp(-stabiliser)), 1e-30);
    // h / denominator through an RMS norm, without the division that could leave the range of float:
    // (h / d) / sqrt(mean((h / d)^2) + eps) = h / sqrt(mean(h^2) + eps d^2).
    const double mean = dot_double(h, h, p_.dv) / static_cast<double>(p_.dv);
    const double scale = 1.0 / std::sqrt(mean + norm_epsilon * denominator * denominator);
    for (index_t i = 0; i < p_.dv; ++i) {
      gate[i] *= h[i];
    }
    const double read = dot_double(p_.wout + head * p_.dv, gate, p_.dv) * scale;
    return static_cast<float>(read + dot_double(p_.a + head * n, x, n) + static_cast<double>(p_.b[head]));
  }

 private:
  static constexpr std::uint32_t minus_infinity = 0xff800000;
  static constexpr double norm_epsilon = 1e-6;

  struct gates {
    float forget;  // exp(log f + m - m')
    float input;   // exp(log i - m') / sqrt(dk)
    float m;       // m'
  };

  [[nodiscard]] gates step(index_t head, const float* x, float m) const noexcept {
    const index_t n = input_.size();
    const double z = dot_double(p_.wf + head * n, x, n) + static_cast<double>(p_.bf[head]);
    const double log_f = (z < 0.0 ? z : 0.0) - std::log1p(std::exp(-std::abs(z)));
    const double log_i = dot_double(p_.wi + head * n, x, n) + static_cast<double>(p_.bi[head]);
    const double root = std::sqrt(static_cast<double>(p_.dk));
    // The first token, told by bits: under -ffinite-math-only nothing may be asked of an infinity.
    if (std::bit_cast<std::uint32_t>(m) == minus_infinity) {
      const float next = static_cast<float>(log_i);
      return {0.0F, static_cast<float>(std::exp(log_i - static_cast<double>(next)) / root), next};
    }
    const double kept = log_f + static_cast<double>(m);
    const float next = static_cast<float>(larger(kept, log_i));
    const double rounded = static_cast<double>(next);
    return {static_cast<float>(std::exp(kept - rounded)), static_cast<float>(std::exp(log_i - rounded) / root), next};
  }

  /// row[dk] = forget * row + input * key.
  void absorb(float* row, const float* key, float forget, float input) const noexcept {
    const simd::vec f = simd::broadcast(forget);
    const simd::vec i = simd::broadcast(input);
    index_t j = 0;
    for (; j + simd::lanes <= p_.dk; j += simd::lanes) {
      simd::store(row + j, simd::fma(i, simd::load(key + j), f * simd::load(row + j)));
    }
    if (const index_t rest = p_.dk - j; rest > 0) {
      const simd::vec old = simd::load_first(row + j, rest);
      simd::store_first(row + j, simd::fma(i, simd::load_first(key + j, rest), f * old), rest);
    }
  }

  /// The larger, or the NaN if there is one: decided on bits, as comparisons with NaN are not for -ffinite-math-only.
  [[nodiscard]] static double larger(double a, double b) noexcept {
    constexpr std::uint64_t infinity = 0x7ff0000000000000;
    if ((std::bit_cast<std::uint64_t>(a) & 0x7fffffffffffffff) > infinity) {
      return a;
    }
    return (std::bit_cast<std::uint64_t>(b) & 0x7fffffffffffffff) > infinity || b > a ? b : a;
  }

  scorer_input input_;
  mlstm_parameters p_;
  index_t delay_;
};

KVPOP_NAMESPACE_END
