#pragma once

#include <cmath>
#include <limits>

#include "kvpop/core/workspace.hpp"        // carver
#include "kvpop/train/matrix_product.hpp"  // matrix_product
#include "kvpop/train/mlp.hpp"             // logistic

/// @file
/// The mLSTM scorer of score/mlstm.hpp for training: chunkwise parallel form of one head over one document, equal to the
/// recurrent form up to rounding (docs/method.md section 4). T is float or double; what is exponentiated is double.
///
/// The memory is kept at chunk boundaries alone; inside a chunk a read at q is a masked product with the chunk's tokens,
///
///     num_q = exp(F_q + m - m_q) C u + sum over j <= q of exp(F_q - F_j + log i_j - m_q) (k_j . u) v_j
///
/// with F the running sum of log f since the chunk's start, C and m the memory there, and u the query of token q - delay.

KVPOP_NAMESPACE_BEGIN

/// Sizes of one head's mLSTM, and where its parameters lie in one block: the rows wk, wq [dk], wv, wo [dv], wf, wi, a, all
/// of `inputs` columns, then wout [dv], bf, bi, b.
struct mlstm_sizes {
  index_t inputs = 0;  ///< key_dim + value_dim
  index_t dk = 0;
  index_t dv = 0;

  // Columns of the projections, and rows of the block.
  [[nodiscard]] constexpr index_t k() const noexcept { return 0; }
  [[nodiscard]] constexpr index_t q() const noexcept { return dk; }
  [[nodiscard]] constexpr index_t v() const noexcept { return 2 * dk; }
  [[nodiscard]] constexpr index_t o() const noexcept { return 2 * dk + dv; }
  [[nodiscard]] constexpr index_t f() const noexcept { return 2 * dk + 2 * dv; }
  [[nodiscard]] constexpr index_t i() const noexcept { return f() + 1; }
  [[nodiscard]] constexpr index_t a() const noexcept { return f() + 2; }
  [[nodiscard]] constexpr index_t rows() const noexcept { return f() + 3; }
  // Offsets of what follows the rows.
  [[nodiscard]] constexpr index_t wout() const noexcept { return rows() * inputs; }
  [[nodiscard]] constexpr index_t bf() const noexcept { return wout() + dv; }
  [[nodiscard]] constexpr index_t bi() const noexcept { return bf() + 1; }
  [[nodiscard]] constexpr index_t b() const noexcept { return bf() + 2; }
  [[nodiscard]] constexpr index_t parameters() const noexcept { return bf() + 3; }
  /// Elements of the memory: C [dv, dk], n [dk]. Its m is kept apart, in double.
  [[nodiscard]] constexpr index_t state() const noexcept { return dv * dk + dk; }
};

/// Tokens that are worked on in parallel.
inline constexpr index_t mlstm_chunk = 64;

/// What the forward pass leaves for the backward pass, and scratch of both: O(tokens * (dk + dv) + tokens / chunk * state).
template <class T>
struct mlstm_tape {
  T* y = nullptr;           // [tokens, rows] projections: k (scaled), q, v, o (the gate, after its sigmoid), f, i, a
  double* log_f = nullptr;  // [tokens]
  double* log_i = nullptr;  // [tokens]
  double* m = nullptr;      // [tokens] stabiliser after the token
  T* num = nullptr;         // [tokens, dv] by the position of the read; row of token t at t + delay
  T* nu = nullptr;          // [tokens] n . u, likewise
  T* states = nullptr;      // [chunks + 1, state] at the chunks' starts
  T* logits = nullptr;      // [chunk, chunk] k . u
  T* weights = nullptr;     // [chunk, chunk] exp(F_q - F_j + log i_j - m_q), 0 for j > q
  T* scaled = nullptr;      // [chunk, dk + dv + 1] operands with a factor folded in
  double* decay = nullptr;  // [chunk] F

  static mlstm_tape carve(carver& memory, const mlstm_sizes& sizes, index_t tokens) {
    const auto times = [](index_t a, index_t b) { return checked_multiply(a, b, "mlstm_tape"); };
    mlstm_tape t;
    t.y = memory.take<T>(times(tokens, sizes.rows()));
    t.log_f = memory.take<double>(tokens);
    t.log_i = memory.take<double>(tokens);
    t.m = memory.take<double>(tokens);
    t.num = memory.take<T>(times(tokens, sizes.dv));
    t.nu = memory.take<T>(tokens);
    t.states = memory.take<T>(times(tokens / mlstm_chunk + 2, sizes.state()));
    t.logits = memory.take<T>(mlstm_chunk * mlstm_chunk);
    t.weights = memory.take<T>(mlstm_chunk * mlstm_chunk);
    t.scaled = memory.take<T>(times(mlstm_chunk, sizes.dk + sizes.dv + 1));
    t.decay = memory.take<double>(mlstm_chunk);
    return t;
  }
};

namespace train_kernel {

inline constexpr double no_memory = -1e300;  // m before the first token: stands for -infinity, whatever the flags
inline constexpr double norm_epsilon = 1e-6;

/// One chunk of a document: its tokens [begin, begin + count), and which of them are read positions.
template <class T>
struct mlstm_chunk_view {
  const mlstm_sizes& sizes;
  const mlstm_tape<T>& tape;
  index_t delay;
  index_t begin;
  index_t count;
  index_t
      reads;   // the last `reads` positions of the chunk read; the others come before the first token's delay is over
  T* y;        // [count, rows] of the chunk's tokens
  T* queries;  // [reads, dk], rows apart by sizes.rows(): the tokens that are read for
  T* num;      // [reads, dv]
  T* nu;       // [reads]
  T* state;    // C [dv, dk], n [dk] at the chunk's start
  double m_start;

  mlstm_chunk_view(const mlstm_sizes& s, const mlstm_tape<T>& t, index_t tokens, index_t d, index_t first) noexcept
      : sizes(s), tape(t), delay(d), begin(first) {
    count = tokens - begin < mlstm_chunk ? tokens - begin : mlstm_chunk;
    const index_t unread = delay > begin ? delay - begin : 0;
    reads = unread < count ? count - unread : 0;
    const index_t first_read = begin + count - reads;
    y = tape.y + begin * sizes.rows();
    queries = reads > 0 ? tape.y + (first_read - delay) * sizes.rows() + sizes.q() : nullptr;
    num = tape.num + first_read * sizes.dv;
    nu = tape.nu + first_read;
    state = tape.states + begin / mlstm_chunk * sizes.state();
    m_start = begin == 0 ? no_memory : tape.m[begin - 1];
  }

  [[nodiscard]] T* next_state() const noexcept { return state + sizes.state(); }
  [[nodiscard]] index_t in_chunk(index_t read) const noexcept { return count - reads + read; }

  /// exp(F_q + m_start - m_q): what is left of the memory at the chunk's start after token q of the chunk.
  [[nodiscard]] double carried(index_t q) const noexcept {
    return begin == 0 ? 0.0 : std::exp(tape.decay[q] + m_start - tape.m[begin + q]);
  }
  /// exp(F_last - F_j + log i_j - m_last): what token j of the chunk weighs in the memory at the chunk's end.
  [[nodiscard]] double kept(index_t j) const noexcept {
    const index_t last = count - 1;
    return std::exp(tape.decay[last] - tape.decay[j] + tape.log_i[begin + j] - tape.m[begin + last]);
  }

  /// Fills decay, logits and weights of the chunk.
  template <class Product>
  void form(const Product& product) const noexcept {
    double sum = 0;
    for (index_t j = 0; j < count; ++j) tape.decay[j] = sum += tape.log_f[begin + j];
    product(transpose::no, transpose::yes, reads, count, sizes.dk, queries, sizes.rows(), y + sizes.k(), sizes.rows(),
            tape.logits, mlstm_chunk, false);
    for (index_t r = 0; r < reads; ++r) {
      const index_t q = in_chunk(r);
      T* row = tape.weights + r * mlstm_chunk;
      for (index_t j = 0; j < count; ++j) {
        row[j] =
            j > q ? T{0}
                  : static_cast<T>(std::exp(tape.decay[q] - tape.decay[j] + tape.log_i[begin + j] - tape.m[begin + q]));
      }
    }
  }
};

/// Gates and stabilisers of all tokens, from their projections.
template <class T>
void mlstm_gates(const mlstm_sizes& sizes, const T* parameters, index_t tokens, const mlstm_tape<T>& tape) noexcept {
  const double root = 1.0 / std::sqrt(static_cast<double>(sizes.dk));
  double m = no_memory;
  for (index_t t = 0; t < tokens; ++t) {
    T* y = tape.y + t * sizes.rows();
    for (index_t j = 0; j < sizes.dk; ++j) y[j] = static_cast<T>(static_cast<double>(y[j]) * root);
    for (index_t j = 0; j < sizes.dv; ++j) y[sizes.o() + j] = logistic(y[sizes.o() + j]);
    const double z = static_cast<double>(y[sizes.f()]) + static_cast<double>(parameters[sizes.bf()]);
    tape.log_f[t] = (z < 0 ? z : 0.0) - std::log1p(std::exp(-std::abs(z)));
    tape.log_i[t] = static_cast<double>(y[sizes.i()]) + static_cast<double>(parameters[sizes.bi()]);
    m = tape.log_f[t] + m > tape.log_i[t] ? tape.log_f[t] + m : tape.log_i[t];
    tape.m[t] = m;
  }
}

/// The reads of one chunk, and the memory at its end.
template <class T, class Product>
void mlstm_run_chunk(const Product& product, const mlstm_chunk_view<T>& c) noexcept {
  const mlstm_sizes& s = c.sizes;
  const mlstm_tape<T>& tape = c.tape;
  c.form(product);
  // From the memory: num = C u, nu = n . u; C and n are one matrix [dv + 1, dk], but num and nu lie apart.
  product(transpose::no, transpose::yes, c.reads, s.dv, s.dk, c.queries, s.rows(), c.state, s.dk, c.num, s.dv, false);
  product(transpose::no, transpose::yes, c.reads, 1, s.dk, c.queries, s.rows(), c.state + s.dv * s.dk, s.dk, c.nu, 1,
          false);
  for (index_t r = 0; r < c.reads; ++r) {
    const T carried = static_cast<T>(c.carried(c.in_chunk(r)));
    for (index_t d = 0; d < s.dv; ++d) c.num[r * s.dv + d] *= carried;
    c.nu[r] *= carried;
    for (index_t j = 0; j < c.count; ++j) {
      T& x = tape.logits[r * mlstm_chunk + j];
      x *= tape.weights[r * mlstm_chunk + j];
      c.nu[r] += x;
    }
  }
  product(transpose::no, transpose::no, c.reads, s.dv, c.count, tape.logits, mlstm_chunk, c.y + s.v(), s.rows(), c.num,
          s.dv, true);
  const T carried = static_cast<T>(c.carried(c.count - 1));
  T* next = c.next_state();
  for (index_t j = 0; j < s.state(); ++j) next[j] = carried * c.state[j];
  for (index_t j = 0; j < c.count; ++j) {
    const T kept = static_cast<T>(c.kept(j));
    for (index_t d = 0; d < s.dv; ++d) tape.scaled[j * s.dv + d] = kept * c.y[j * s.rows() + s.v() + d];
    for (index_t d = 0; d < s.dk; ++d) next[s.dv * s.dk + d] += kept * c.y[j * s.rows() + d];
  }
  product(transpose::yes, transpose::no, s.dv, s.dk, c.count, tape.scaled, s.dv, c.y + s.k(), s.rows(), next, s.dk,
          true);
}

/// max(|nu|, exp(-m), 1e-30), and the factor of num that the RMS norm makes of it.
template <class T>
struct mlstm_norm {
  double denominator;
  double scale;
  bool follows_nu;

  mlstm_norm(const T* num, index_t dv, double nu, double m) noexcept {
    const double floor = std::exp(-m) > 1e-30 ? std::exp(-m) : 1e-30;
    follows_nu = std::abs(nu) > floor;
    denominator = follows_nu ? std::abs(nu) : floor;
    double sum = 0;
    for (index_t d = 0; d < dv; ++d) sum += static_cast<double>(num[d]) * static_cast<double>(num[d]);
    scale = 1.0 / std::sqrt(sum / static_cast<double>(dv) + norm_epsilon * denominator * denominator);
  }
};

}  // namespace train_kernel

/// r [tokens] = the scores of one document's tokens x [tokens, inputs], rows x_stride elements apart; NaN for the last
/// `delay`, which are not read yet. 0 <= delay.
///
/// 2 * tokens * (parameters + chunk * (dk + dv) / 2 + 2 * state) FLOP. Does not allocate. The tape is kept for
/// mlstm_backward.
template <class T, matrix_product<T> Product>
void mlstm_forward(const Product& product, const mlstm_sizes& sizes, const T* parameters, const T* x, index_t x_stride,
                   index_t tokens, index_t delay, const mlstm_tape<T>& tape, T* r) noexcept {
  product(transpose::no, transpose::yes, tokens, sizes.rows(), sizes.inputs, x, x_stride, parameters, sizes.inputs,
          tape.y, sizes.rows(), false);
  train_kernel::mlstm_gates(sizes, parameters, tokens, tape);
  for (index_t j = 0; j < sizes.state(); ++j) tape.states[j] = T{0};
  for (index_t begin = 0; begin < tokens; begin += mlstm_chunk) {
    train_kernel::mlstm_run_chunk(product, train_kernel::mlstm_chunk_view<T>(sizes, tape, tokens, delay, begin));
  }
  const T* wout = parameters + sizes.wout();
  for (index_t t = 0; t < tokens; ++t) {
    if (delay >= tokens - t) {
      r[t] = std::numeric_limits<T>::quiet_NaN();
      continue;
    }
    const T* y = tape.y + t * sizes.rows();
    const T* num = tape.num + (t + delay) * sizes.dv;
    const train_kernel::mlstm_norm<T> norm(num, sizes.dv, static_cast<double>(tape.nu[t + delay]), tape.m[t + delay]);
    double sum = 0;
    for (index_t d = 0; d < sizes.dv; ++d) {
      sum += static_cast<double>(wout[d]) * static_cast<double>(y[sizes.o() + d]) * static_cast<double>(num[d]);
    }
    r[t] = static_cast<T>(sum * norm.scale + static_cast<double>(y[sizes.a()]) +
                          static_cast<double>(parameters[sizes.b()]));
  }
}

KVPOP_NAMESPACE_END
