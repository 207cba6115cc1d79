#include "trainable_scorer.hpp"

#include <cmath>
#include <map>

#include "kvpop/score/decay.hpp"               // log_gamma_from
#include "kvpop/score/scorer_description.hpp"  // scorer_description, layer_tensor_name
#include "kvpop/train/random_stream.hpp"       // random_stream
#include "safetensors.hpp"                     // safetensors_writer

namespace qwen3 {

namespace {

double normal(kvpop::random_stream& random) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random.uniform()));
  return radius * std::cos(6.283185307179586 * random.uniform());
}

void fill(float* x, std::int64_t count, double size, kvpop::random_stream& random) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(size * normal(random));
}

void start_mlp(const kvpop::mlp_sizes& s, float* p, kvpop::random_stream& random) {
  fill(p, s.b1(), 1 / std::sqrt(static_cast<double>(s.inputs)), random);
  fill(p + s.w2(), s.hidden, 0.1 / std::sqrt(static_cast<double>(s.hidden)), random);
}

void start_mlstm(const kvpop::mlstm_sizes& s, float* p, kvpop::random_stream& random) {
  const double size = 1 / std::sqrt(static_cast<double>(s.inputs));
  fill(p, s.f() * s.inputs, size, random);
  fill(p + s.f() * s.inputs, 3 * s.inputs, 0.1 * size, random);
  fill(p + s.wout(), s.dv, 0.1 / std::sqrt(static_cast<double>(s.dv)), random);
  p[s.bf()] = 3;  // a memory that lasts some twenty tokens to begin with
}

// Where a tensor of a scorer file lies in a block, and whether it multiplies the inputs.
struct tensor_place {
  std::int64_t offset;
  bool of_inputs;
};

std::map<std::string, tensor_place> tensor_places(const scorer_plan& plan) {
  if (plan.is_mlp()) {
    const kvpop::mlp_sizes s = plan.mlp();
    return {{"w1", {0, true}},
            {"b1", {s.b1(), false}},
            {"w2", {s.w2(), false}},
            {"b2", {s.b2(), false}},
            {"g", {s.parameters(), false}}};
  }
  const kvpop::mlstm_sizes s = plan.mlstm();
  const auto row = [&](std::int64_t r) { return tensor_place{r * s.inputs, true}; };
  return {{"wk", row(s.k())},      {"wq", row(s.q())},      {"wv", row(s.v())},    {"wo", row(s.o())},
          {"wf", row(s.f())},      {"wi", row(s.i())},      {"a", row(s.a())},     {"wout", {s.wout(), false}},
          {"bf", {s.bf(), false}}, {"bi", {s.bi(), false}}, {"b", {s.b(), false}}, {"g", {s.parameters(), false}}};
}

kvpop::scorer_description describe(const scorer_plan& plan) {
  kvpop::scorer_description d;
  d.kind = plan.kind;
  d.layers = plan.layers;
  d.input = {plan.kv_heads, plan.head_dim, plan.head_dim};
  d.hidden = plan.hidden, d.dk = plan.dk, d.dv = plan.dv;
  d.has_decay = plan.decay;
  return d;
}

std::vector<std::int64_t> shape_of(const kvpop::scorer_tensor& tensor, std::int64_t kv_heads) {
  std::vector<std::int64_t> shape{kv_heads};
  if (tensor.rows > 0) shape.push_back(tensor.rows);
  if (tensor.columns > 0) shape.push_back(tensor.columns);
  return shape;
}

}  // namespace

trainable_scorer::trainable_scorer(const scorer_plan& plan, std::uint64_t seed)
    : plan_(plan),
      values_(static_cast<std::size_t>(plan.heads() * (plan.block() + 1)), 0.0F),
      scales_(static_cast<std::size_t>(plan.heads() * plan.inputs()), 1.0F) {
  for (std::int64_t h = 0; h < plan.heads(); ++h) {
    kvpop::random_stream random = kvpop::random_stream::of(seed, 1, static_cast<std::uint64_t>(h));
    if (plan.is_mlp()) {
      start_mlp(plan.mlp(), head(h), random);
    } else {
      start_mlstm(plan.mlstm(), head(h), random);
    }
    head(h)[plan.block()] = -9;  // g: gamma all but 1
  }
}

float trainable_scorer::log_gamma(std::int64_t h) const {
  return plan_.decay ? kvpop::log_gamma_from(head(h)[plan_.block()]) : 0.0F;
}

void trainable_scorer::save(const std::string& path, const std::string& target, std::int64_t topk) const {
  const kvpop::scorer_description description = describe(plan_);
  const std::map<std::string, tensor_place> places = tensor_places(plan_);
  std::vector<tensor_shape> shapes;
  for (std::int64_t layer = 0; layer < plan_.layers; ++layer) {
    for (const kvpop::scorer_tensor& t : description.tensors())
      shapes.push_back({kvpop::layer_tensor_name(layer, t.name), "F32", shape_of(t, plan_.kv_heads)});
  }
  const std::int64_t delay = plan_.is_mlp() ? 0 : plan_.delay;
  safetensors_writer file(path, shapes,
                          {{"format", "kvpop.scorer"},
                           {"version", "1"},
                           {"kind", kvpop::name_of(plan_.kind)},
                           {"layers", std::to_string(plan_.layers)},
                           {"kv_heads", std::to_string(plan_.kv_heads)},
                           {"key_dim", std::to_string(plan_.head_dim)},
                           {"value_dim", std::to_string(plan_.head_dim)},
                           {"window", std::to_string(plan_.window)},
                           {"delay", std::to_string(delay)},
                           {"sinks", std::to_string(plan_.sinks)},
                           {"target", target},
                           {"trained_topk", std::to_string(topk)}});
  std::vector<float> row;
  for (std::int64_t layer = 0; layer < plan_.layers; ++layer) {
    for (const kvpop::scorer_tensor& t : description.tensors()) {
      for (std::int64_t h = layer * plan_.kv_heads; h < (layer + 1) * plan_.kv_heads; ++h) {
        const tensor_place place = places.at(t.name);
        row.assign(head(h) + place.offset, head(h) + place.offset + t.size());
        const auto inputs = static_cast<std::size_t>(plan_.inputs());
        for (std::size_t i = 0; place.of_inputs && i < row.size(); ++i)
          row[i] /= scales_[static_cast<std::size_t>(h) * inputs + i % inputs];
        file.append(std::span<const float>(row));
      }
    }
  }
  file.finish();
}

}  // namespace qwen3
