#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kvpop/score/mlp.hpp"    // mlp_parameters
#include "kvpop/score/mlstm.hpp"  // mlstm_parameters
#include "support/generators.hpp"
#include "support/golden.hpp"

/// Parameters of learned scorers for tests, and the same scorers in double: plain loops, one head, no vector code.
namespace kvpop_test {

using numbers = std::vector<float>;

/// `count` normal numbers times `scale`.
inline numbers draw(generator& random, std::int64_t count, double scale) {
  numbers v(static_cast<std::size_t>(count));
  for (float& x : v) {
    x = static_cast<float>(scale * static_cast<double>(random.normal()));
  }
  return v;
}

inline double oracle_dot(const float* a, const float* b, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  return sum;
}

/// An MLP scorer that owns its parameters.
struct mlp_case {
  kvpop::scorer_input input;
  std::int64_t hidden = 0;
  numbers w1, b1, w2, b2;

  static mlp_case random(generator& random, kvpop::scorer_input input, std::int64_t hidden) {
    const std::int64_t h = input.kv_heads;
    const std::int64_t x = input.size();
    return {input,
            hidden,
            draw(random, h * hidden * x, 1.0 / std::sqrt(static_cast<double>(x))),
            draw(random, h * hidden, 0.5),
            draw(random, h * hidden, 1.0 / std::sqrt(static_cast<double>(hidden))),
            draw(random, h, 0.5)};
  }

  static mlp_case golden_case(const std::string& name) {
    const auto w1 = golden::tensor<double>(name + ".param.w1");
    const auto get = [&](const char* p) { return golden::tensor<double>(name + ".param." + p).as_float(); };
    return {{w1.shape[0], w1.shape[2] / 2, w1.shape[2] / 2}, w1.shape[1], get("w1"), get("b1"), get("w2"), get("b2")};
  }

  [[nodiscard]] kvpop::mlp_ref ref() const {
    return kvpop::mlp_ref(input, {hidden, w1.data(), b1.data(), w2.data(), b2.data(), nullptr});
  }

  /// The score of x in double.
  [[nodiscard]] double oracle(std::int64_t head, const float* x) const {
    const std::int64_t n = input.size();
    double r = static_cast<double>(b2[static_cast<std::size_t>(head)]);
    for (std::int64_t i = 0; i < hidden; ++i) {
      const auto unit = static_cast<std::size_t>(head * hidden + i);
      const double a = oracle_dot(w1.data() + (head * hidden + i) * n, x, n) + static_cast<double>(b1[unit]);
      r += static_cast<double>(w2[unit]) * a / (1.0 + std::exp(-a));
    }
    return r;
  }
};

/// An mLSTM scorer that owns its parameters.
struct mlstm_case {
  kvpop::scorer_input input;
  std::int64_t dk = 0;
  std::int64_t dv = 0;
  numbers wk, wq, wv, wo, wf, wi, a, wout, bf, bi, b;

  static mlstm_case random(generator& random, kvpop::scorer_input input, std::int64_t dk, std::int64_t dv) {
    const std::int64_t h = input.kv_heads;
    const std::int64_t x = input.size();
    const double s = 1.0 / std::sqrt(static_cast<double>(x));
    return {input,
            dk,
            dv,
            draw(random, h * dk * x, s),
            draw(random, h * dk * x, s),
            draw(random, h * dv * x, s),
            draw(random, h * dv * x, s),
            draw(random, h * x, s),
            draw(random, h * x, s),
            draw(random, h * x, s),
            draw(random, h * dv, 1.0 / std::sqrt(static_cast<double>(dv))),
            draw(random, h, 1.0),
            draw(random, h, 1.0),
            draw(random, h, 0.5)};
  }

  static mlstm_case golden_case(const std::string& name) {
    const auto wk = golden::tensor<double>(name + ".param.wk");
    const auto wv = golden::tensor<double>(name + ".param.wv");
    const auto get = [&](const char* p) { return golden::tensor<double>(name + ".param." + p).as_float(); };
    return {{wk.shape[0], wk.shape[2] / 2, wk.shape[2] / 2},
            wk.shape[1],
            wv.shape[1],
            get("wk"),
            get("wq"),
            get("wv"),
            get("wo"),
            get("wf"),
            get("wi"),
            get("a"),
            get("wout"),
            get("bf"),
            get("bi"),
            get("b")};
  }

  [[nodiscard]] kvpop::mlstm_ref ref(std::int64_t delay) const {
    kvpop::mlstm_parameters p;
    p.dk = dk;
    p.dv = dv;
    p.wk = wk.data();
    p.wq = wq.data();
    p.wv = wv.data();
    p.wo = wo.data();
    p.wf = wf.data();
    p.wi = wi.data();
    p.a = a.data();
    p.wout = wout.data();
    p.bf = bf.data();
    p.bi = bi.data();
    p.b = b.data();
    return kvpop::mlstm_ref(input, p, delay);
  }

  /// Scores of one head in double; x: [tokens, X]. NaN for the last `delay` tokens, which nobody has read yet.
  [[nodiscard]] std::vector<double> oracle(std::int64_t head, const float* x, std::int64_t tokens,
                                           std::int64_t delay) const {
    const std::int64_t n = input.size();
    const auto at = [&](const numbers& w, std::int64_t rows, std::int64_t i, const float* token) {
      return oracle_dot(w.data() + (head * rows + i) * n, token, n);
    };
    const auto one = [&](const numbers& w) { return static_cast<double>(w[static_cast<std::size_t>(head)]); };
    std::vector<double> memory(static_cast<std::size_t>(dv * dk), 0.0);
    std::vector<double> norm(static_cast<std::size_t>(dk), 0.0);
    double m = -std::numeric_limits<double>::infinity();
    std::vector<double> r(static_cast<std::size_t>(tokens), std::numeric_limits<double>::quiet_NaN());
    for (std::int64_t q = 0; q < tokens; ++q) {
      const float* xq = x + q * n;
      const double z = at(wf, 1, 0, xq) + one(bf);
      const double log_f = -std::log1p(std::exp(-z));
      const double log_i = at(wi, 1, 0, xq) + one(bi);
      const double next = std::fmax(log_f + m, log_i);
      const double f = std::exp(log_f + m - next);
      const double i = std::exp(log_i - next);
      m = next;
      for (std::int64_t c = 0; c < dk; ++c) {
        const double key = at(wk, dk, c, xq) / std::sqrt(static_cast<double>(dk));
        norm[static_cast<std::size_t>(c)] = f * norm[static_cast<std::size_t>(c)] + i * key;
        for (std::int64_t v = 0; v < dv; ++v) {
          double& cell = memory[static_cast<std::size_t>(v * dk + c)];
          cell = f * cell + i * at(wv, dv, v, xq) * key;
        }
      }
      if (q >= delay) {
        r[static_cast<std::size_t>(q - delay)] = read(head, x + (q - delay) * n, memory, norm, m);
      }
    }
    return r;
  }

 private:
  [[nodiscard]] double read(std::int64_t head, const float* x, const std::vector<double>& memory,
                            const std::vector<double>& norm, double m) const {
    const std::int64_t n = input.size();
    std::vector<double> u(static_cast<std::size_t>(dk));
    double nu = 0.0;
    for (std::int64_t c = 0; c < dk; ++c) {
      u[static_cast<std::size_t>(c)] = oracle_dot(wq.data() + (head * dk + c) * n, x, n);
      nu += norm[static_cast<std::size_t>(c)] * u[static_cast<std::size_t>(c)];
    }
    const double denominator = std::fmax(std::fmax(std::abs(nu), std::exp(-m)), 1e-30);
    std::vector<double> h(static_cast<std::size_t>(dv), 0.0);
    double square = 0.0;
    for (std::int64_t v = 0; v < dv; ++v) {
      for (std::int64_t c = 0; c < dk; ++c) {
        h[static_cast<std::size_t>(v)] += memory[static_cast<std::size_t>(v * dk + c)] * u[static_cast<std::size_t>(c)];
      }
      h[static_cast<std::size_t>(v)] /= denominator;
      square += h[static_cast<std::size_t>(v)] * h[static_cast<std::size_t>(v)];
    }
    double r = oracle_dot(a.data() + head * n, x, n) + static_cast<double>(b[static_cast<std::size_t>(head)]);
    for (std::int64_t v = 0; v < dv; ++v) {
      const double gate = 1.0 / (1.0 + std::exp(-oracle_dot(wo.data() + (head * dv + v) * n, x, n)));
      r += static_cast<double>(wout[static_cast<std::size_t>(head * dv + v)]) * gate * h[static_cast<std::size_t>(v)] /
           std::sqrt(square / static_cast<double>(dv) + 1e-6);
    }
    return r;
  }
};

/// Scores of one head by the library, token by token in the order of score/scorer.hpp; NaN where not read yet.
template <class Scorer>
std::vector<float> run_scorer(const Scorer& scorer, std::int64_t head, const float* x, std::int64_t n,
                              std::int64_t tokens, float* memory) {
  scorer.reset(memory);
  std::vector<float> r(static_cast<std::size_t>(tokens), std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t q = 0; q < tokens; ++q) {
    scorer.observe(head, q, x + q * n, memory);
    if (const std::int64_t t = q - scorer.delay(); t >= 0) {
      r[static_cast<std::size_t>(t)] = scorer.score(head, t, x + t * n, memory);
    }
  }
  return r;
}

}  // namespace kvpop_test
