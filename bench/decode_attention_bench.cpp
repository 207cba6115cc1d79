#include <benchmark/benchmark.h>

#include <vector>

#include "full_cache.hpp"
#include "kvpop/attention/decode.hpp"
#include "kvpop/score/recency.hpp"
#include "roofline.hpp"

// decode_attention over enough layers that nothing stays in the last-level cache. Each K and V byte counts once. The
// ceiling is a plain read of the same memory by the same threads, taken in turns with it.
namespace {

using kvpop::index_t;

template <class T, index_t Dim>
void decode(benchmark::State& state) {
  const index_t query_heads = state.range(0);
  const index_t kv_heads = state.range(1);
  const index_t slots = state.range(2);
  const bool with_weights = state.range(3) != 0;
  const kvpop::host_context ctx = roofline::pool().context();
  const full_cache::layers<T, Dim> model(ctx, {.kv_heads = kv_heads}, {.sinks = 0, .window = slots, .topk = 0},
                                         [](index_t) { return kvpop::recency{}; });
  std::vector<float> q(static_cast<std::size_t>(query_heads * Dim), 0.1F);
  std::vector<float> out(q.size());
  std::vector<float> weights(static_cast<std::size_t>(kv_heads * slots));
  const kvpop::step_view<const float> q_view(q.data(), {1, query_heads, Dim});
  const kvpop::step_view<float> out_view(out.data(), {1, query_heads, Dim});
  kvpop::attention_outputs outputs;
  if (with_weights) outputs.weights = {weights.data(), {1, kv_heads, slots}};
  kvpop::buffer<std::byte> memory(static_cast<index_t>(kvpop::decode_workspace(model.refs()[0], query_heads)));
  const kvpop::workspace scratch{memory.data(), memory.bytes()};

  const double layer_bytes = static_cast<double>(2 * kv_heads * slots * Dim) * sizeof(T);
  const double bytes = layer_bytes * static_cast<double>(model.refs().size());
  std::vector<double> ratios;
  double raw = 0;
  for (auto _ : state) {
    double reading = 0;
    double attention = 0;
    for (const auto& ref : model.refs()) {
      const auto begin = roofline::clock::now();
      kvpop::decode_attention(ctx, q_view, ref, out_view, {}, outputs, scratch);
      attention += roofline::seconds_since(begin);
    }
    for (const auto& ref : model.refs()) {
      reading += roofline::read_seconds(ctx, ref.arrays().keys, static_cast<std::size_t>(layer_bytes));
    }
    raw = std::max(raw, bytes / reading);
    ratios.push_back(reading / attention);
    state.SetIterationTime(attention);
  }
  state.counters["KV_bytes/s"] =
      benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  state.counters["raw_read/s"] = benchmark::Counter(raw, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_raw"] = roofline::median(ratios);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"query_heads", "kv_heads", "slots", "weights"});
  b->Args({32, 8, 4096, 0})->Args({32, 8, 32768, 0})->Args({32, 8, 4096, 1});  // grouped
  b->Args({8, 8, 4096, 0})->Args({32, 1, 4096, 0})->Args({28, 4, 1021, 0});    // MHA, MQA, odd
  b->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.5);
}

BENCHMARK(decode<float, 128>)->Apply(shapes);
BENCHMARK(decode<kvpop::float16, 128>)->Apply(shapes);
BENCHMARK(decode<kvpop::bfloat16, 128>)->Apply(shapes);

}  // namespace

int main(int argc, char** argv) {
  roofline::print_machine(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
