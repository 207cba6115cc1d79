#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attention.hpp"           // attention
#include "config.hpp"              // model_config
#include "kvpop/core/context.hpp"  // host_context
#include "method.hpp"              // model_shape
#include "weights.hpp"             // weights, weight_matrix

namespace qwen3 {

/// One transformer block. Matrices stay where the file is mapped, norms and biases are f32 copies; what a family does not
/// have is empty.
struct layer_weights {
  std::vector<float> input_norm;              // [hidden]
  weight_matrix q, k, v;                      // [query_width, hidden], [kv_width, hidden], [kv_width, hidden]
  std::vector<float> q_bias, k_bias, v_bias;  // [query_width], [kv_width], [kv_width]   Qwen2
  std::vector<float> q_norm, k_norm;          // [head_dim], [head_dim]                     Qwen3
  weight_matrix o;                            // [hidden, query_width]
  std::vector<float> o_bias;                  // [hidden]
  std::vector<float> post_norm;               // [hidden]
  weight_matrix gate, up, down;               // [intermediate, hidden] x 2, [hidden, intermediate]
  std::vector<float> gate_bias, up_bias, down_bias;
};

/// The activations of one chunk, all f32. Kept between calls so that a decode step allocates nothing.
struct activations {
  std::vector<float> x;                 // [tokens, hidden]                the residual stream
  std::vector<float> normed;            // [tokens, hidden]
  std::vector<float> q;                 // [tokens, query_heads, head_dim]
  std::vector<float> k, v;              // [tokens, kv_heads, head_dim]
  std::vector<std::int64_t> positions;  // [tokens]
  std::vector<float> cosines, sines;    // [tokens, head_dim / 2]
  std::vector<float> heads;             // [tokens, query_heads, head_dim] what attention gives
  std::vector<float> gate, up;          // [tokens, intermediate]
  std::vector<float> scratch;           // of `linear`
};

/// A causal language model of the Qwen3, Llama or Qwen2 family, weights mapped from a Hugging Face directory. Immutable:
/// any number of sequences, each with its own cache and activations, run on one model.
class model {
 public:
  /// Throws load_error naming the file and what is wrong with it. `rope_precision`: see rope_frequencies.
  static model open(const std::string& directory, weight_type rope_precision = weight_type::f32);

  const model_config& config() const { return config_; }
  const weights& tensors() const { return weights_; }
  model_shape shape() const { return {config_.layers, config_.kv_heads, config_.head_dim}; }

  /// Runs the next tokens of a sequence and writes the logits of its last `rows` tokens.
  ///
  /// tokens  ids in [0, vocabulary); `state` knows their positions
  /// logits  [rows, vocabulary], 0 <= rows <= tokens
  ///
  /// Throws usage_error, before anything changes, when a token is out of range.
  void forward(const kvpop::host_context& ctx, std::span<const std::int32_t> tokens, attention& state,
               activations& memory, std::int64_t rows, float* logits) const;

 private:
  void attention_block(const kvpop::host_context& ctx, std::int64_t layer, std::int64_t n, attention& state,
                       activations& a) const;
  void mlp_block(const kvpop::host_context& ctx, const layer_weights& w, std::int64_t n, activations& a) const;

  model_config config_;
  weights weights_;
  weight_matrix embedding_;  // [vocabulary, hidden]
  std::vector<layer_weights> layers_;
  std::vector<float> final_norm_;   // [hidden]
  std::vector<float> frequencies_;  // [head_dim / 2] radians a position
  weight_matrix head_;              // [vocabulary, hidden]; the embedding when tied
};

/// Throws usage_error naming the first id that is outside [0, vocabulary) and where it stands.
void check_tokens(std::span<const std::int32_t> tokens, std::int64_t vocabulary);

}  // namespace qwen3
