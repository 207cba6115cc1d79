#pragma once

#include "kvpop/train/mlstm.hpp"  // mlstm_forward's tape

/// @file
/// The gradient of the chunkwise mLSTM. Two identities keep it short. The stabiliser m is a constant: it scales num, nu and
/// exp(-m) alike, and the score does not depend on that scale. And every weight exp(F_q - F_j + log i_j) stands beside one
/// k_j and one u_q, so the gradients of the gates follow from those of k and u:
///
///     d log i_j = k_j . dk_j        d log f_i = sum over reads q >= i of u_q . du_q - sum over j >= i of k_j . dk_j

KVPOP_NAMESPACE_BEGIN

/// Scratch of mlstm_backward.
template <class T>
struct mlstm_backward_scratch {
  T* dy = nullptr;       // [tokens, rows] gradients of the projections
  T* dnum = nullptr;     // [tokens, dv] by the position of the read
  T* dnu = nullptr;      // [tokens]
  T* dstate = nullptr;   // [2, state] of the memory at the end and at the start of a chunk
  T* dlogits = nullptr;  // [chunk, chunk]

  static mlstm_backward_scratch carve(carver& memory, const mlstm_sizes& sizes, index_t tokens) {
    const auto times = [](index_t a, index_t b) { return checked_multiply(a, b, "mlstm_backward"); };
    mlstm_backward_scratch s;
    s.dy = memory.take<T>(times(tokens, sizes.rows()));
    s.dnum = memory.take<T>(times(tokens, sizes.dv));
    s.dnu = memory.take<T>(tokens);
    s.dstate = memory.take<T>(2 * sizes.state());
    s.dlogits = memory.take<T>(mlstm_chunk * mlstm_chunk);
    return s;
  }
};

namespace train_kernel {

/// From dr to dnum, dnu, and the gradients of output gate, a, wout and b.
template <class T>
void mlstm_readout_backward(const mlstm_sizes& s, const T* parameters, index_t tokens, index_t delay,
                            const mlstm_tape<T>& tape, const T* dr, const mlstm_backward_scratch<T>& scratch,
                            T* gradient) noexcept {
  const T* wout = parameters + s.wout();
  for (index_t t = 0; t < tokens - delay; ++t) {
    const T* y = tape.y + t * s.rows();
    const index_t read = t + delay;
    const T* num = tape.num + read * s.dv;
    T* dy = scratch.dy + t * s.rows();
    T* dnum = scratch.dnum + read * s.dv;
    const mlstm_norm<T> norm(num, s.dv, static_cast<double>(tape.nu[read]), tape.m[read]);
    const double g = static_cast<double>(dr[t]);
    double along = 0;  // sum of d(num * scale) * num
    for (index_t d = 0; d < s.dv; ++d) {
      const double gate = static_cast<double>(y[s.o() + d]);
      const double normed = static_cast<double>(num[d]) * norm.scale;
      gradient[s.wout() + d] += static_cast<T>(g * gate * normed);
      dy[s.o() + d] = static_cast<T>(g * static_cast<double>(wout[d]) * normed * gate * (1.0 - gate));
      along += g * static_cast<double>(wout[d]) * gate * static_cast<double>(num[d]);
    }
    const double cube = norm.scale * norm.scale * norm.scale * along;
    for (index_t d = 0; d < s.dv; ++d) {
      dnum[d] = static_cast<T>(g * static_cast<double>(wout[d]) * static_cast<double>(y[s.o() + d]) * norm.scale -
                               cube / static_cast<double>(s.dv) * static_cast<double>(num[d]));
    }
    const double ddenominator = -cube * norm_epsilon * norm.denominator;
    scratch.dnu[read] = static_cast<T>(!norm.follows_nu ? 0.0 : tape.nu[read] < T{0} ? -ddenominator : ddenominator);
    dy[s.a()] = dr[t];
    gradient[s.b()] += dr[t];
  }
}

/// One chunk: adds to dq of the tokens that are read for, writes dk and dv of the chunk's tokens, and turns the memory's
/// gradient at the chunk's end (dnext) into that at its start (dstate).
template <class T, class Product>
void mlstm_chunk_backward(const Product& product, const mlstm_chunk_view<T>& c,
                          const mlstm_backward_scratch<T>& scratch, const T* dnext, T* dstate) noexcept {
  const mlstm_sizes& s = c.sizes;
  const mlstm_tape<T>& tape = c.tape;
  const index_t rows = s.rows();
  T* dy = scratch.dy + c.begin * rows;
  const index_t first_read = c.begin + c.count - c.reads;
  T* dqueries = scratch.dy + (first_read - c.delay) * rows + s.q();
  const T* dnum = scratch.dnum + first_read * s.dv;
  const T* dnu = scratch.dnu + first_read;
  c.form(product);

  // Tokens j into the memory at the end: dv_j = kept_j C' k_j, dk_j = kept_j (v_j C' + n').
  product(transpose::no, transpose::yes, c.count, s.dv, s.dk, c.y + s.k(), rows, dnext, s.dk, dy + s.v(), rows, false);
  product(transpose::no, transpose::no, c.count, s.dk, s.dv, c.y + s.v(), rows, dnext, s.dk, dy + s.k(), rows, false);
  for (index_t j = 0; j < c.count; ++j) {
    const T kept = static_cast<T>(c.kept(j));
    for (index_t d = 0; d < s.dv; ++d) dy[j * rows + s.v() + d] *= kept;
    for (index_t d = 0; d < s.dk; ++d) dy[j * rows + d] = kept * (dy[j * rows + d] + dnext[s.dv * s.dk + d]);
  }
  // The memory at the start: what is left of it at the end, and what the reads take from it.
  const T carried_over = static_cast<T>(c.carried(c.count - 1));
  for (index_t j = 0; j < s.state(); ++j) dstate[j] = carried_over * dnext[j];
  if (c.reads == 0) return;
  T* scaled = tape.scaled;  // [reads, dv + 1] dnum and dnu times what is carried to the read
  for (index_t r = 0; r < c.reads; ++r) {
    const T carried = static_cast<T>(c.carried(c.in_chunk(r)));
    for (index_t d = 0; d < s.dv; ++d) scaled[r * (s.dv + 1) + d] = carried * dnum[r * s.dv + d];
    scaled[r * (s.dv + 1) + s.dv] = carried * dnu[r];
  }
  product(transpose::yes, transpose::no, s.dv + 1, s.dk, c.reads, scaled, s.dv + 1, c.queries, rows, dstate, s.dk,
          true);
  product(transpose::no, transpose::no, c.reads, s.dk, s.dv + 1, scaled, s.dv + 1, c.state, s.dk, dqueries, rows, true);
  // Reads from the chunk's own tokens.
  product(transpose::no, transpose::yes, c.reads, c.count, s.dv, dnum, s.dv, c.y + s.v(), rows, scratch.dlogits,
          mlstm_chunk, false);
  for (index_t r = 0; r < c.reads; ++r) {
    for (index_t j = 0; j < c.count; ++j) {
      const T weight = tape.weights[r * mlstm_chunk + j];
      tape.logits[r * mlstm_chunk + j] *= weight;
      scratch.dlogits[r * mlstm_chunk + j] = weight * (scratch.dlogits[r * mlstm_chunk + j] + dnu[r]);
    }
  }
  product(transpose::yes, transpose::no, c.count, s.dv, c.reads, tape.logits, mlstm_chunk, dnum, s.dv, dy + s.v(), rows,
          true);
  product(transpose::no, transpose::no, c.reads, s.dk, c.count, scratch.dlogits, mlstm_chunk, c.y + s.k(), rows,
          dqueries, rows, true);
  product(transpose::yes, transpose::no, c.count, s.dk, c.reads, scratch.dlogits, mlstm_chunk, c.queries, rows,
          dy + s.k(), rows, true);
}

/// The gates' gradients from those of k and u, and the scale of k.
template <class T>
void mlstm_gates_backward(const mlstm_sizes& s, index_t tokens, index_t delay, const mlstm_tape<T>& tape,
                          const mlstm_backward_scratch<T>& scratch, T* gradient) noexcept {
  const double root = 1.0 / std::sqrt(static_cast<double>(s.dk));
  double dlog_f = 0;
  for (index_t t = tokens; t-- > 0;) {
    const T* y = tape.y + t * s.rows();
    T* dy = scratch.dy + t * s.rows();
    double by_token = 0;
    for (index_t j = 0; j < s.dk; ++j) {
      by_token += static_cast<double>(y[j]) * static_cast<double>(dy[j]);
      dy[j] = static_cast<T>(static_cast<double>(dy[j]) * root);
    }
    if (t >= delay) {
      const index_t asker = (t - delay) * s.rows() + s.q();
      for (index_t j = 0; j < s.dk; ++j) {
        dlog_f += static_cast<double>(tape.y[asker + j]) * static_cast<double>(scratch.dy[asker + j]);
      }
    }
    dlog_f -= by_token;
    // logsigmoid'(z) = 1 - exp(logsigmoid(z)). The first token's forget gate meets an empty memory.
    const double df = t == 0 ? 0.0 : dlog_f * -std::expm1(tape.log_f[t]);
    dy[s.f()] = static_cast<T>(df);
    dy[s.i()] = static_cast<T>(by_token);
    gradient[s.bf()] += static_cast<T>(df);
    gradient[s.bi()] += static_cast<T>(by_token);
  }
}

}  // namespace train_kernel

/// Adds to gradient [parameters] the derivative of the sum over the tokens that are read of dr * r; dr of the last `delay`
/// tokens is not looked at. tape: as mlstm_forward left it, for the same arguments; its scratch is overwritten.
///
/// About twice the FLOP of mlstm_forward. There is no gradient to x: scorer inputs are detached. Where the 1e-30 of the
/// normaliser decides, it counts as the constant it is. Does not allocate.
template <class T, matrix_product<T> Product>
void mlstm_backward(const Product& product, const mlstm_sizes& sizes, const T* parameters, const T* x, index_t x_stride,
                    index_t tokens, index_t delay, const mlstm_tape<T>& tape, const T* dr,
                    const mlstm_backward_scratch<T>& scratch, T* gradient) noexcept {
  for (index_t j = 0; j < tokens * sizes.rows(); ++j) scratch.dy[j] = T{0};
  for (index_t j = 0; j < 2 * sizes.state(); ++j) scratch.dstate[j] = T{0};
  train_kernel::mlstm_readout_backward(sizes, parameters, tokens, delay, tape, dr, scratch, gradient);
  T* dnext = scratch.dstate;
  T* dstate = scratch.dstate + sizes.state();
  const index_t chunks = (tokens + mlstm_chunk - 1) / mlstm_chunk;
  for (index_t chunk = chunks; chunk-- > 0;) {
    const train_kernel::mlstm_chunk_view<T> c(sizes, tape, tokens, delay, chunk * mlstm_chunk);
    train_kernel::mlstm_chunk_backward(product, c, scratch, dnext, dstate);
    T* other = dnext;
    dnext = dstate;
    dstate = other;
  }
  train_kernel::mlstm_gates_backward(sizes, tokens, delay, tape, scratch, gradient);
  product(transpose::yes, transpose::no, sizes.rows(), sizes.inputs, tokens, scratch.dy, sizes.rows(), x, x_stride,
          gradient, sizes.inputs, true);
}

KVPOP_NAMESPACE_END
