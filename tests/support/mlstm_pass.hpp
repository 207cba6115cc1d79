#pragma once

#include <string>
#include <vector>

#include "kvpop/score/mlstm.hpp"           // mlstm_ref
#include "kvpop/train/mlstm_backward.hpp"  // mlstm_forward, mlstm_backward
#include "support/train_cases.hpp"         // carved

namespace kvpop_test {

/// The tensors of an mLSTM in the order of a training block.
inline const std::vector<std::string> mlstm_names{"wk", "wq", "wv", "wo", "wf", "wi", "a", "wout", "bf", "bi", "b"};

/// The training form with memory of its own.
template <class T>
struct mlstm_pass {
  kvpop::mlstm_sizes sizes;
  kvpop::index_t tokens, delay;
  std::vector<std::byte> tape_memory, scratch_memory;
  kvpop::mlstm_tape<T> tape;
  kvpop::mlstm_backward_scratch<T> scratch;

  mlstm_pass(kvpop::mlstm_sizes s, kvpop::index_t n, kvpop::index_t d)
      : sizes(s),
        tokens(n),
        delay(d),
        tape(carved(tape_memory, [&](kvpop::carver& c) { return kvpop::mlstm_tape<T>::carve(c, s, n); })),
        scratch(carved(scratch_memory,
                       [&](kvpop::carver& c) { return kvpop::mlstm_backward_scratch<T>::carve(c, s, n); })) {}

  std::vector<T> forward(const std::vector<T>& parameters, const std::vector<T>& x) {
    std::vector<T> r(static_cast<std::size_t>(tokens));
    kvpop::mlstm_forward(kvpop::plain_product{}, sizes, parameters.data(), x.data(), sizes.inputs, tokens, delay, tape,
                         r.data());
    return r;
  }
  std::vector<T> backward(const std::vector<T>& parameters, const std::vector<T>& x, const std::vector<T>& dr) {
    std::vector<T> gradient(parameters.size(), T{0});
    forward(parameters, x);
    kvpop::mlstm_backward(kvpop::plain_product{}, sizes, parameters.data(), x.data(), sizes.inputs, tokens, delay, tape,
                          dr.data(), scratch, gradient.data());
    return gradient;
  }
};

/// The scorer that decoding runs, over the same parameters, which must outlive it.
inline kvpop::mlstm_ref recurrent(const kvpop::mlstm_sizes& s, kvpop::index_t key_dim,
                                  const std::vector<float>& parameters, kvpop::index_t delay) {
  const float* p = parameters.data();
  const auto row = [&](kvpop::index_t r) { return p + r * s.inputs; };
  kvpop::mlstm_parameters m;
  m.dk = s.dk, m.dv = s.dv;
  m.wk = row(s.k()), m.wq = row(s.q()), m.wv = row(s.v()), m.wo = row(s.o());
  m.wf = row(s.f()), m.wi = row(s.i()), m.a = row(s.a());
  m.wout = p + s.wout(), m.bf = p + s.bf(), m.bi = p + s.bi(), m.b = p + s.b();
  return {{1, key_dim, s.inputs - key_dim}, m, delay};
}

}  // namespace kvpop_test
