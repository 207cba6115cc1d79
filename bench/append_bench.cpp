#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "full_cache.hpp"
#include "kvpop/attention/decode.hpp"
#include "kvpop/core/buffer.hpp"
#include "kvpop/score/key_norm.hpp"
#include "kvpop/score/mlp.hpp"
#include "kvpop/score/recency.hpp"
#include "roofline.hpp"

// append to a full cache: every token is scored, takes the slot of the weakest and is written there. Each layer's append is
// followed by its decode_attention, as in an engine, so it finds its priorities in no cache; the two are timed apart.
// Bytes are those that it reads of every slot, and the parameters of the scorer, each once. The ceiling is a plain read of
// the same bytes of another layer, taken in turns with it and as cold.
namespace {

using kvpop::index_t;

constexpr index_t kv_heads = 8;
constexpr index_t query_heads = 32;
constexpr index_t dim = 128;
constexpr kvpop::budget limits{.sinks = 4, .window = 256, .topk = 3836};

// What a scorer brings along: its parameters for each layer, and what `pop` reads of a slot under it.
struct recency {
  // All priorities are equal, so that the positions decide and are read too.
  static constexpr index_t slot_bytes = sizeof(double) + sizeof(index_t);
  static constexpr index_t floats = 0;
  static kvpop::recency of(const float* /*parameters*/) { return {}; }
};

struct key_norm {
  static constexpr index_t slot_bytes = sizeof(double);
  static constexpr index_t floats = 0;
  static kvpop::key_norm of(const float* /*parameters*/) { return kvpop::key_norm(dim); }
};

struct mlp {
  static constexpr index_t slot_bytes = sizeof(double);
  static constexpr index_t hidden = 256;
  static constexpr index_t floats = kv_heads * hidden * (2 * dim + 2) + 16;

  static kvpop::mlp_ref of(const float* parameters) {
    kvpop::mlp_parameters p;
    p.hidden = hidden;
    p.w1 = parameters;
    p.b1 = p.w1 + kv_heads * hidden * 2 * dim;
    p.w2 = p.b1 + kv_heads * hidden;
    p.b2 = p.w2 + kv_heads * hidden;
    return {{kv_heads, dim, dim}, p};
  }
};

template <class T, class Scorer>
void append(benchmark::State& state) {
  const index_t sequences = state.range(0);
  const kvpop::cache_shape shape{.sequences = sequences, .kv_heads = kv_heads};
  const kvpop::host_context ctx = roofline::pool().context();
  const index_t layers = full_cache::layers<T, dim>::count_for(shape, limits);
  kvpop::buffer<float> parameters(layers * Scorer::floats);
  for (index_t i = 0; i < parameters.size(); ++i) parameters.data()[i] = 0.05F * std::sin(static_cast<float>(i % 8191));
  const auto parameters_of = [&](index_t layer) { return parameters.data() + layer * Scorer::floats; };
  const auto scorer_of = [&](index_t layer) { return Scorer::of(parameters_of(layer)); };
  const full_cache::layers<T, dim> model(ctx, shape, limits, scorer_of);

  full_cache::token_bank tokens(sequences * query_heads * dim);
  std::vector<float> out(static_cast<std::size_t>(sequences * query_heads * dim));
  const std::vector<float> q(out.size(), 0.1F);
  const auto slot_bytes = static_cast<std::size_t>(sequences * kv_heads * limits.capacity() * Scorer::slot_bytes);
  const std::size_t parameter_bytes = Scorer::floats * sizeof(float);
  const double bytes = static_cast<double>(slot_bytes + parameter_bytes) * static_cast<double>(layers);

  std::vector<double> of_raw;
  std::vector<double> of_decode;
  double raw = 0;
  for (auto _ : state) {
    double appending = 0;
    double attending = 0;
    double reading = 0;
    for (index_t i = 0; i < layers; ++i) {
      const auto& ref = model.refs()[static_cast<std::size_t>(i)];
      const auto k = tokens.next({sequences, 1, kv_heads, dim});
      const auto v = tokens.next({sequences, 1, kv_heads, dim});
      const auto scorer = scorer_of(i);
      auto begin = roofline::clock::now();
      kvpop::append(ctx, ref, scorer, k, v);
      appending += roofline::seconds_since(begin);
      begin = roofline::clock::now();
      kvpop::decode_attention(ctx, kvpop::step_view<const float>(q.data(), {sequences, query_heads, dim}), ref,
                              kvpop::step_view<float>(out.data(), {sequences, query_heads, dim}));
      attending += roofline::seconds_since(begin);
      // The layer whose turn to append is farthest away.
      const index_t other = (i + (layers + 1) / 2) % layers;
      const auto& arrays = model.refs()[static_cast<std::size_t>(other)].arrays();
      const void* slots = arrays.priorities;
      if (Scorer::slot_bytes > sizeof(double)) slots = arrays.positions;  // the priorities lie behind them
      reading += roofline::read_seconds(ctx, slots, slot_bytes);
      if (parameter_bytes != 0) reading += roofline::read_seconds(ctx, parameters_of(other), parameter_bytes);
    }
    raw = std::max(raw, bytes / reading);
    of_raw.push_back(reading / appending);
    of_decode.push_back(appending / attending);
    state.SetIterationTime(appending);
  }
  const auto rate = [](double each) {
    return benchmark::Counter(each, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  };
  const double appends = static_cast<double>(layers);
  state.counters["tokens/s"] = rate(appends * static_cast<double>(sequences));
  state.counters["bytes/s"] = rate(bytes);
  state.counters["raw_read/s"] = benchmark::Counter(raw, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_raw"] = roofline::median(of_raw);
  state.counters["of_decode"] = roofline::median(of_decode);
  // Inverted, the rate of appends is the seconds that one takes.
  state.counters["an_append"] =
      benchmark::Counter(appends, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// An iteration takes as long as its attention, which the manual time leaves out: so their number is given.
void shapes(benchmark::internal::Benchmark* b) {
  b->ArgName("sequences")->Arg(1)->Arg(8)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(25);
}

BENCHMARK(append<float, recency>)->Apply(shapes);
BENCHMARK(append<float, key_norm>)->Apply(shapes);
BENCHMARK(append<float, mlp>)->Apply(shapes);
BENCHMARK(append<kvpop::bfloat16, recency>)->Apply(shapes);
BENCHMARK(append<kvpop::bfloat16, key_norm>)->Apply(shapes);
BENCHMARK(append<kvpop::bfloat16, mlp>)->Apply(shapes);

}  // namespace

int main(int argc, char** argv) {
  roofline::print_machine(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
