#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qwen3 {

enum class architecture { qwen3, llama, qwen2 };

/// The frequency scaling of Llama 3.1 and later: slow rotations are slowed further, fast ones stay, with a ramp between.
struct llama3_scaling {
  double factor = 1;                // by which the slow ones are slowed
  double low_freq_factor = 1;       // wavelengths above original / low_freq_factor are slow
  double high_freq_factor = 4;      // wavelengths below original / high_freq_factor are fast
  std::int64_t original_positions;  // max_position_embeddings before the scaling
};

/// What generation_config.json proposes; the command line decides.
struct generation_defaults {
  std::optional<bool> do_sample;
  std::optional<double> temperature;
  std::optional<double> top_p;
  std::optional<std::int64_t> top_k;
};

/// The shape of a model, from config.json: every number is checked, products of two fit in 64 bits.
struct model_config {
  architecture family = architecture::qwen3;
  std::int64_t hidden = 0;        // width of the residual stream
  std::int64_t intermediate = 0;  // width inside the MLP
  std::int64_t layers = 0;
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;  // divides query_heads
  std::int64_t head_dim = 0;  // even; query_heads * head_dim need not be hidden
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  // trained for; more is not an error
  double rms_norm_eps = 0;
  double rope_theta = 0;
  std::optional<llama3_scaling> rope_scaling;
  bool tied_embeddings = false;  // lm_head is model.embed_tokens
  bool qk_norm = false;          // RMS norm of every query and key head (Qwen3)
  bool qkv_bias = false;
  bool output_bias = false;  // of o_proj
  bool mlp_bias = false;
  std::optional<std::int64_t> bos_token;
  std::vector<std::int64_t> eos_tokens;  // any of them ends a generation; from generation_config.json when it has them
  generation_defaults generation;

  std::int64_t query_width() const { return query_heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
};

/// `Qwen3`, `Llama` or `Qwen2`.
const char* name_of(architecture family);

/// Reads config.json of a Hugging Face directory, and generation_config.json when it is there.
///
/// Fields that only a default would fill are filled as transformers does; the others are named when missing. What this
/// engine does not compute is refused by name: architectures, activations, rope scalings, sliding windows,
/// quantisation. Throws load_error naming the file, the field, its value and its limits.
model_config load_config(const std::string& directory);

}  // namespace qwen3
