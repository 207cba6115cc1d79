#include "model.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "elementwise.hpp"  // add, silu_times
#include "error.hpp"        // load_error, usage_error
#include "linear.hpp"       // linear, copy_row
#include "norm.hpp"         // rms_norm
#include "rope.hpp"         // rope_frequencies, rope_angles, rotate

namespace qwen3 {

namespace {

const float* or_null(const std::vector<float>& bias) { return bias.empty() ? nullptr : bias.data(); }

layer_weights load_layer(const weights& w, const model_config& c, std::int64_t index) {
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  const auto matrix = [&](const char* name, std::int64_t out, std::int64_t in) {
    return w.matrix(layer + name + ".weight", out, in);
  };
  const auto bias = [&](bool present, const char* name, std::int64_t size) {
    return present ? w.vector(layer + name + ".bias", size) : std::vector<float>();
  };
  layer_weights l;
  l.input_norm = w.vector(layer + "input_layernorm.weight", c.hidden);
  l.q = matrix("self_attn.q_proj", c.query_width(), c.hidden);
  l.k = matrix("self_attn.k_proj", c.kv_width(), c.hidden);
  l.v = matrix("self_attn.v_proj", c.kv_width(), c.hidden);
  l.q_bias = bias(c.qkv_bias, "self_attn.q_proj", c.query_width());
  l.k_bias = bias(c.qkv_bias, "self_attn.k_proj", c.kv_width());
  l.v_bias = bias(c.qkv_bias, "self_attn.v_proj", c.kv_width());
  if (c.qk_norm) {
    l.q_norm = w.vector(layer + "self_attn.q_norm.weight", c.head_dim);
    l.k_norm = w.vector(layer + "self_attn.k_norm.weight", c.head_dim);
  }
  l.o = matrix("self_attn.o_proj", c.hidden, c.query_width());
  l.o_bias = bias(c.output_bias, "self_attn.o_proj", c.hidden);
  l.post_norm = w.vector(layer + "post_attention_layernorm.weight", c.hidden);
  l.gate = matrix("mlp.gate_proj", c.intermediate, c.hidden);
  l.up = matrix("mlp.up_proj", c.intermediate, c.hidden);
  l.down = matrix("mlp.down_proj", c.hidden, c.intermediate);
  l.gate_bias = bias(c.mlp_bias, "mlp.gate_proj", c.intermediate);
  l.up_bias = bias(c.mlp_bias, "mlp.up_proj", c.intermediate);
  l.down_bias = bias(c.mlp_bias, "mlp.down_proj", c.hidden);
  return l;
}

// Sizes of a chunk's activations; nothing is allocated once a chunk as large has been seen.
void resize(activations& a, const model_config& c, std::int64_t tokens, std::int64_t scratch) {
  const auto set = [](std::vector<float>& v, std::int64_t size) { v.resize(static_cast<std::size_t>(size)); };
  set(a.x, tokens * c.hidden);
  set(a.normed, tokens * c.hidden);
  set(a.q, tokens * c.query_width());
  set(a.k, tokens * c.kv_width());
  set(a.v, tokens * c.kv_width());
  a.positions.resize(static_cast<std::size_t>(tokens));
  set(a.cosines, tokens * c.head_dim / 2);
  set(a.sines, tokens * c.head_dim / 2);
  set(a.heads, tokens * c.query_width());
  set(a.gate, tokens * c.intermediate);
  set(a.up, tokens * c.intermediate);
  set(a.scratch, scratch);
}

// A weight or a cached value that is not finite, or a product that overflowed, ends here and not in what is sampled.
void check_finite(std::span<const float> logits, std::span<const std::int64_t> positions,
                  std::span<const std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto row = logits.subspan(i * (logits.size() / tokens.size()), logits.size() / tokens.size());
    if (std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); })) continue;
    throw load_error("the logits after token " + std::to_string(tokens[i]) + " at position " +
                     std::to_string(positions[i]) + " are not finite: a weight is not, or a product overflowed");
  }
}

}  // namespace

void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocabulary)
      throw usage_error("token " + std::to_string(i) + " is " + std::to_string(tokens[i]) +
                        "; the model's vocabulary has ids 0 to " + std::to_string(vocabulary - 1));
  }
}

model model::open(const std::string& directory, weight_type rope_precision) {
  model m;
  m.config_ = load_config(directory);
  m.weights_ = weights::open(directory);
  const model_config& c = m.config_;
  m.embedding_ = m.weights_.matrix("model.embed_tokens.weight", c.vocabulary, c.hidden);
  for (std::int64_t i = 0; i < c.layers; ++i) m.layers_.push_back(load_layer(m.weights_, c, i));
  m.final_norm_ = m.weights_.vector("model.norm.weight", c.hidden);
  m.head_ = c.tied_embeddings ? m.embedding_ : m.weights_.matrix("lm_head.weight", c.vocabulary, c.hidden);
  m.frequencies_ = rope_frequencies(c, rope_precision);
  return m;
}

void model::forward(const kvpop::host_context& ctx, std::span<const std::int32_t> tokens, attention& state,
                    activations& a, std::int64_t rows, float* logits) const {
  const model_config& c = config_;
  check_tokens(tokens, c.vocabulary);
  const auto n = static_cast<std::int64_t>(tokens.size());
  resize(a, c, n, linear_scratch(ctx));

  float* row = a.x.data();
  for (const std::int32_t token : tokens) {
    copy_row(embedding_, token, row);
    row += c.hidden;
  }
  for (std::int64_t i = 0; i < n; ++i) a.positions[static_cast<std::size_t>(i)] = state.position(i);
  rope_angles(frequencies_, a.positions, a.cosines.data(), a.sines.data());
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    attention_block(ctx, layer, n, state, a);
    mlp_block(ctx, layers_[static_cast<std::size_t>(layer)], n, a);
  }
  const float* last = a.x.data() + (n - rows) * c.hidden;  // [rows, hidden]
  rms_norm(ctx, last, rows, c.hidden, final_norm_.data(), c.rms_norm_eps, a.normed.data());
  linear(ctx, a.normed.data(), rows, head_, nullptr, logits, a.scratch);
  check_finite({logits, static_cast<std::size_t>(rows * c.vocabulary)},
               std::span(a.positions).last(static_cast<std::size_t>(rows)),
               tokens.last(static_cast<std::size_t>(rows)));
}

// x += o(attention(rope(norm(q(norm(x)))), ...))
void model::attention_block(const kvpop::host_context& ctx, std::int64_t layer, std::int64_t n, attention& state,
                            activations& a) const {
  const model_config& c = config_;
  const layer_weights& w = layers_[static_cast<std::size_t>(layer)];
  rms_norm(ctx, a.x.data(), n, c.hidden, w.input_norm.data(), c.rms_norm_eps, a.normed.data());
  linear(ctx, a.normed.data(), n, w.q, or_null(w.q_bias), a.q.data(), a.scratch);  // [n, query_heads, head_dim]
  linear(ctx, a.normed.data(), n, w.k, or_null(w.k_bias), a.k.data(), a.scratch);  // [n, kv_heads, head_dim]
  linear(ctx, a.normed.data(), n, w.v, or_null(w.v_bias), a.v.data(), a.scratch);  // [n, kv_heads, head_dim]
  if (c.qk_norm) {
    rms_norm(ctx, a.q.data(), n * c.query_heads, c.head_dim, w.q_norm.data(), c.rms_norm_eps, a.q.data());
    rms_norm(ctx, a.k.data(), n * c.kv_heads, c.head_dim, w.k_norm.data(), c.rms_norm_eps, a.k.data());
  }
  rotate(ctx, a.q.data(), n, c.query_heads, c.head_dim, a.cosines.data(), a.sines.data());
  rotate(ctx, a.k.data(), n, c.kv_heads, c.head_dim, a.cosines.data(), a.sines.data());
  state.attend(ctx, layer, {n, a.q.data(), a.k.data(), a.v.data()}, a.heads.data());
  linear(ctx, a.heads.data(), n, w.o, or_null(w.o_bias), a.normed.data(), a.scratch);  // [n, hidden]
  add(ctx, a.normed.data(), n * c.hidden, a.x.data());
}

// x += down(silu(gate(norm(x))) * up(norm(x)))
void model::mlp_block(const kvpop::host_context& ctx, const layer_weights& w, std::int64_t n, activations& a) const {
  const model_config& c = config_;
  rms_norm(ctx, a.x.data(), n, c.hidden, w.post_norm.data(), c.rms_norm_eps, a.normed.data());
  linear(ctx, a.normed.data(), n, w.gate, or_null(w.gate_bias), a.gate.data(), a.scratch);  // [n, intermediate]
  linear(ctx, a.normed.data(), n, w.up, or_null(w.up_bias), a.up.data(), a.scratch);        // [n, intermediate]
  silu_times(ctx, a.up.data(), n * c.intermediate, a.gate.data());
  linear(ctx, a.gate.data(), n, w.down, or_null(w.down_bias), a.normed.data(), a.scratch);  // [n, hidden]
  add(ctx, a.normed.data(), n * c.hidden, a.x.data());
}

}  // namespace qwen3
