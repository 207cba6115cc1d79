#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "kvpop/attention/decode.hpp"
#include "kvpop/cache/cache.hpp"
#include "roofline.hpp"

// decode_attention over enough layers that nothing stays in the last-level cache. Each K and V byte counts once. The
// ceiling is a plain read of the same memory by the same threads, taken in turns with it.
namespace {

using kvpop::index_t;

template <class T, index_t Dim>
struct layers {
  layers(index_t kv_heads, index_t slots) : shape{1, kv_heads, 0, 0}, limits{0, slots, 0} {
    constexpr std::size_t beyond_cache = std::size_t{768} << 20;
    const std::size_t bytes = ref_type::bytes(shape, limits);
    const auto count = static_cast<index_t>(beyond_cache / bytes) + 1;
    memory = kvpop::buffer<std::byte>(static_cast<index_t>(bytes) * count);
    for (index_t i = 0; i < count; ++i) {
      kvpop::carver block(kvpop::workspace{memory.data() + static_cast<index_t>(bytes) * i, bytes}, "bench");
      const auto arrays = ref_type::carve(block, shape, limits);
      const index_t size = kv_heads * slots * Dim;
      for (index_t j = 0; j < size; ++j) {
        const float x = static_cast<float>((j * 2654435761U + static_cast<unsigned>(i)) % 2048U) / 1024.0F - 1.0F;
        arrays.keys[j] = kvpop::scalar_traits<T>::from_float(x);
        arrays.values[j] = kvpop::scalar_traits<T>::from_float(-x);
      }
      for (index_t j = 0; j < kv_heads * slots; ++j) arrays.positions[j] = j % slots;
      std::fill_n(arrays.held, kv_heads, static_cast<std::int32_t>(slots));
      arrays.seen[0] = slots;
      refs.emplace_back(arrays, shape, limits);
    }
  }

  using ref_type = kvpop::budgeted_cache_ref<T, Dim>;
  kvpop::cache_shape shape;
  kvpop::budget limits;
  kvpop::buffer<std::byte> memory;
  std::vector<ref_type> refs;
};

template <class T, index_t Dim>
void decode(benchmark::State& state) {
  const index_t query_heads = state.range(0);
  const index_t kv_heads = state.range(1);
  const index_t slots = state.range(2);
  const bool with_weights = state.range(3) != 0;
  const kvpop::host_context ctx = roofline::pool().context();
  const layers<T, Dim> model(kv_heads, slots);
  std::vector<float> q(static_cast<std::size_t>(query_heads * Dim), 0.1F);
  std::vector<float> out(q.size());
  std::vector<float> weights(static_cast<std::size_t>(kv_heads * slots));
  const kvpop::step_view<const float> q_view(q.data(), {1, query_heads, Dim});
  const kvpop::step_view<float> out_view(out.data(), {1, query_heads, Dim});
  kvpop::attention_outputs outputs;
  if (with_weights) outputs.weights = {weights.data(), {1, kv_heads, slots}};
  kvpop::buffer<std::byte> memory(static_cast<index_t>(kvpop::decode_workspace(model.refs[0], query_heads)));
  const kvpop::workspace scratch{memory.data(), memory.bytes()};

  const double layer_bytes = static_cast<double>(2 * kv_heads * slots * Dim) * sizeof(T);
  const double bytes = layer_bytes * static_cast<double>(model.refs.size());
  std::vector<double> ratios;
  double raw = 0;
  for (auto _ : state) {
    double reading = 0;
    double attention = 0;
    for (const auto& ref : model.refs) {
      const auto begin = roofline::clock::now();
      kvpop::decode_attention(ctx, q_view, ref, out_view, {}, outputs, scratch);
      attention += roofline::seconds_since(begin);
    }
    for (const auto& ref : model.refs) {
      reading += roofline::read_seconds(ctx, ref.arrays().keys, static_cast<std::size_t>(layer_bytes));
    }
    raw = std::max(raw, bytes / reading);
    ratios.push_back(reading / attention);
    state.SetIterationTime(attention);
  }
  state.counters["KV_bytes/s"] = benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate,
                                                    benchmark::Counter::kIs1000);
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
  roofline::print_machine();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
