#include "inspect.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>

#include "error.hpp"                    // usage_error
#include "kvpop/score/charge.hpp"       // memory_charge
#include "kvpop/score/scorer_file.hpp"  // load_scorer

namespace qwen3 {

namespace {

// `name` padded, then the value: one line of a report.
std::string row(const char* name, const std::string& value) {
  std::string line = "  ";
  line += name;
  line.resize(std::max<std::size_t>(line.size() + 1, 22), ' ');
  return line + value + "\n";
}

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", value);
  return text.data();
}

std::string sizes_of(const model_config& c) {
  std::string text;
  text += row("layers", std::to_string(c.layers));
  text += row("hidden", std::to_string(c.hidden));
  text += row("intermediate", std::to_string(c.intermediate));
  text += row("query heads", std::to_string(c.query_heads));
  text += row("KV heads", std::to_string(c.kv_heads));
  text += row("head dimension", std::to_string(c.head_dim));
  text += row("vocabulary", std::to_string(c.vocabulary) + (c.tied_embeddings ? ", head tied to the embedding" : ""));
  text += row("positions", std::to_string(c.max_positions) + ", RoPE base " + number(c.rope_theta));
  text += row("q/k norms", c.qk_norm ? "yes" : "no");
  text += row("q/k/v biases", c.qkv_bias ? "yes" : "no");
  return text;
}

// Parameters by tensor, and the dtypes they are stored in.
std::string parameters_of(const weights& tensors) {
  std::int64_t count = 0;
  std::set<std::string> dtypes;
  for (const auto& [name, tensor] : tensors.tensors()) {
    std::int64_t size = 1;
    for (const std::int64_t extent : tensor.shape) size *= extent;
    count += size;
    dtypes.insert(tensor.dtype);
  }
  std::string list;
  for (const std::string& dtype : dtypes) list += (list.empty() ? "" : ", ") + dtype;
  return row("parameters", std::to_string(count) + " in " + list);
}

std::string budgets_of(std::int64_t budget, const model& network, const scorer_set& scorers,
                       const method_settings& settings) {
  const model_shape shape = network.shape();
  const std::int64_t entry = 2 * shape.head_dim * bytes_of(settings.dtype);
  std::string text = "\nwithin " + std::to_string(budget) + " entries a KV head, " +
                     std::to_string(budget * entry * shape.kv_heads * shape.layers) + " bytes over all layers:\n";
  for (const method m : all_methods()) {
    if (m == method::full) continue;
    try {
      text += row(name_of(m), arithmetic(plan_method(m, budget, settings, scorers, shape)));
    } catch (const usage_error& error) {
      text += row(name_of(m), std::string("not possible: ") + error.what());
    }
  }
  return text;
}

}  // namespace

std::string inspect_model(const std::string& directory, const model& network, const scorer_set& scorers,
                          const method_settings& settings, std::optional<std::int64_t> budget) {
  const model_config& c = network.config();
  const std::int64_t entry = 2 * c.head_dim * bytes_of(settings.dtype);  // one key, one value
  std::string text = directory + ": " + name_of(c.family) + "\n" + sizes_of(c) + parameters_of(network.tensors());
  text += row("KV bytes a token", std::to_string(entry * c.kv_heads * c.layers) + " = " + std::to_string(c.layers) +
                                      " layers x " + std::to_string(c.kv_heads) + " KV heads x 2 x " +
                                      std::to_string(c.head_dim) + " x " + std::to_string(bytes_of(settings.dtype)) +
                                      " bytes (" + name_of(settings.dtype) + ")");
  text += row("scorers", std::string(scorers.mlp ? "kvpop-mlp " : "") + (scorers.mlstm ? "kvpop " : "") +
                             (scorers.any() == nullptr ? "none" : ""));
  if (budget) text += budgets_of(*budget, network, scorers, settings);
  return text;
}

std::string inspect_scorer(const std::string& path) {
  const kvpop::scorer_file file = kvpop::load_scorer(path);
  const kvpop::scorer_description& d = file.description();
  std::string text = path + ": " + name_of(d.kind) + "\n";
  text += row("layers", std::to_string(d.layers));
  text += row("KV heads", std::to_string(d.input.kv_heads));
  text += row("key, value dimension", std::to_string(d.input.key_dim) + ", " + std::to_string(d.input.value_dim));
  text += d.kind == kvpop::scorer_kind::mlp ? row("hidden", std::to_string(d.hidden))
                                            : row("memory", std::to_string(d.dv) + " x " + std::to_string(d.dk));
  text += row("parameters", std::to_string(d.parameters()));
  text += row("trained with", std::to_string(d.sinks) + " sinks, window " + std::to_string(d.window) + ", delay " +
                                  std::to_string(d.delay) + ", topk " + std::to_string(d.trained_topk) + ", target " +
                                  (d.target.empty() ? "not stated" : d.target));
  float fastest = 0;  // decay
  for (kvpop::index_t layer = 0; layer < d.layers; ++layer) {
    const kvpop::scorer_layer scorer = file.layer(layer);
    for (kvpop::index_t h = 0; h < d.input.kv_heads; ++h) fastest = std::min(fastest, scorer.ref().log_gamma(h));
  }
  text += row("decay", d.has_decay ? "gamma from " + number(std::exp(static_cast<double>(fastest))) + " up" : "none");
  const std::int64_t entry = d.input.key_dim + d.input.value_dim;
  text += row("floats of memory",
              std::to_string(file.memory_size()) + " a head, charged as " +
                  std::to_string(kvpop::memory_charge(file.memory_size(), entry * 4)) + " entries (f32) or " +
                  std::to_string(kvpop::memory_charge(file.memory_size(), entry * 2)) + " (bf16, f16)");
  return text;
}

}  // namespace qwen3
