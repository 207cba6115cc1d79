#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "kvpop/core/buffer.hpp"
#include "kvpop/score/mlp.hpp"
#include "kvpop/score/mlstm.hpp"
#include "roofline.hpp"

// One step of a learned scorer (observe and score one token) for all KV heads of a layer, over enough layers that nothing
// stays in the last-level cache. Bytes are those of the parameters and, for the mLSTM, of the memory, each counted once.
// The ceiling is a plain read of the same memory by the same threads, taken in turns with it.
namespace {

using kvpop::index_t;

constexpr index_t kv_heads = 8;
constexpr std::size_t beyond_cache = std::size_t{512} << 20;

// Parameters of one layer handed out one after another, each on a cache line of its own.
struct shelf {
  float* next;

  const float* take(index_t floats) {
    float* const p = next;
    next += (floats + 15) / 16 * 16;
    return p;
  }
};

kvpop::mlp_ref make_mlp(shelf s, index_t dim, index_t hidden) {
  const kvpop::scorer_input input{kv_heads, dim, dim};
  kvpop::mlp_parameters p;
  p.hidden = hidden;
  p.w1 = s.take(kv_heads * hidden * input.size());
  p.b1 = s.take(kv_heads * hidden);
  p.w2 = s.take(kv_heads * hidden);
  p.b2 = s.take(kv_heads);
  return {input, p};
}

kvpop::mlstm_ref make_mlstm(shelf s, index_t dim, index_t state) {
  const kvpop::scorer_input input{kv_heads, dim, dim};
  const index_t x = input.size();
  kvpop::mlstm_parameters p;
  p.dk = state;
  p.dv = state;
  for (const float** matrix : {&p.wk, &p.wv, &p.wq, &p.wo}) *matrix = s.take(kv_heads * state * x);
  for (const float** vector : {&p.wf, &p.wi, &p.a}) *vector = s.take(kv_heads * x);
  p.wout = s.take(kv_heads * state);
  for (const float** one : {&p.bf, &p.bi, &p.b}) *one = s.take(kv_heads);
  return {input, p, 0};
}

// Steps every layer once an iteration. `floats`: what one layer reads; `step(layer, head)` scores one token.
template <class Step>
void run(benchmark::State& state, const kvpop::buffer<float>& memory, index_t layers, index_t floats,
         const Step& step) {
  const kvpop::host_context ctx = roofline::pool().context();
  const double bytes = static_cast<double>(layers * floats) * sizeof(float);
  std::vector<double> ratios;
  double raw = 0;
  for (auto _ : state) {
    const auto begin = roofline::clock::now();
    for (index_t layer = 0; layer < layers; ++layer) {
      ctx.parallel_for(kv_heads, [&](index_t head) noexcept { step(layer, head); });
    }
    const double scoring = roofline::seconds_since(begin);
    double reading = 0;
    for (index_t layer = 0; layer < layers; ++layer) {
      reading +=
          roofline::read_seconds(ctx, memory.data() + layer * floats, static_cast<std::size_t>(floats) * sizeof(float));
    }
    raw = std::max(raw, bytes / reading);
    ratios.push_back(reading / scoring);
    state.SetIterationTime(scoring);
  }
  state.SetItemsProcessed(state.iterations() * layers * kv_heads);
  state.counters["bytes/s"] =
      benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  state.counters["raw_read/s"] = benchmark::Counter(raw, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_raw"] = roofline::median(ratios);
}

// Room for `floats` a layer, filled with small numbers.
kvpop::buffer<float> room(index_t layers, index_t floats) {
  kvpop::buffer<float> memory(layers * floats);
  for (index_t i = 0; i < memory.size(); ++i) {
    memory.data()[i] = 0.05F * std::sin(static_cast<float>(i % 8191));
  }
  return memory;
}

index_t layers_beyond_cache(index_t floats) {
  return static_cast<index_t>(beyond_cache / (static_cast<std::size_t>(floats) * sizeof(float))) + 1;
}

void mlp_step(benchmark::State& state) {
  const index_t dim = state.range(0);
  const index_t hidden = state.range(1);
  const index_t floats = kv_heads * hidden * (2 * dim + 2) + 16;
  const index_t layers = layers_beyond_cache(floats);
  const kvpop::buffer<float> memory = room(layers, floats);
  std::vector<kvpop::mlp_ref> refs;
  for (index_t i = 0; i < layers; ++i) {
    refs.push_back(make_mlp({const_cast<float*>(memory.data()) + i * floats}, dim, hidden));
  }
  const std::vector<float> x(static_cast<std::size_t>(2 * dim), 0.3F);
  std::vector<float> kept(static_cast<std::size_t>(layers * kv_heads));
  run(state, memory, layers, floats, [&](index_t layer, index_t head) {
    kept[static_cast<std::size_t>(layer * kv_heads + head)] =
        refs[static_cast<std::size_t>(layer)].score(head, 0, x.data(), nullptr);
  });
}

void mlstm_step(benchmark::State& state) {
  const index_t dim = state.range(0);
  const index_t size = state.range(1);
  const index_t per_head = (size * size + size + 1 + 15) / 16 * 16;
  const index_t parameters = kv_heads * (4 * size * 2 * dim + 6 * dim + size) + 3 * 16;
  const index_t floats = parameters + kv_heads * per_head;
  const index_t layers = layers_beyond_cache(floats);
  kvpop::buffer<float> memory = room(layers, floats);
  std::vector<kvpop::mlstm_ref> refs;
  const auto state_of = [&](index_t layer, index_t head) {
    return memory.data() + layer * floats + parameters + head * per_head;
  };
  for (index_t i = 0; i < layers; ++i) {
    refs.push_back(make_mlstm({memory.data() + i * floats}, dim, size));
    for (index_t h = 0; h < kv_heads; ++h) refs.back().reset(state_of(i, h));
  }
  const std::vector<float> x(static_cast<std::size_t>(2 * dim), 0.3F);
  std::vector<float> kept(static_cast<std::size_t>(layers * kv_heads));
  run(state, memory, layers, floats, [&](index_t layer, index_t head) {
    const kvpop::mlstm_ref& scorer = refs[static_cast<std::size_t>(layer)];
    scorer.observe(head, 0, x.data(), state_of(layer, head));
    kept[static_cast<std::size_t>(layer * kv_heads + head)] = scorer.score(head, 0, x.data(), state_of(layer, head));
  });
}

void mlp_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"dim", "hidden"})->Args({64, 64})->Args({128, 256});
  b->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.5);
}
void mlstm_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"dim", "state"})->Args({64, 16})->Args({64, 64})->Args({128, 128});
  b->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.5);
}

BENCHMARK(mlp_step)->Apply(mlp_shapes);
BENCHMARK(mlstm_step)->Apply(mlstm_shapes);

}  // namespace

int main(int argc, char** argv) {
  roofline::print_machine(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
