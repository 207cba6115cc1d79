#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "kvpop/attention/masked.hpp"
#include "kvpop/attention/transposed.hpp"
#include "roofline.hpp"

// transposed_attention of whole sequences, and the dense LSE that it needs, 8 query heads on 2 KV heads. FLOP are 2 D for
// every (query, key) that is seen, of each query head. The ceiling is OpenBLAS' sgemm forming all logits of the same sizes
// (twice as many: it knows no causality), head by head with all threads, taken in turns with it.
namespace {

using kvpop::index_t;

constexpr index_t query_heads = 8, kv_heads = 2;

template <class T>
struct sequence_data {
  std::vector<T> q, k;
  std::vector<float> lse, mass, wide_q, wide_k, logits;
};

template <class T>
sequence_data<T> make(index_t tokens, index_t dim) {
  sequence_data<T> x;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<T>& to, index_t count) {
    for (index_t i = 0; i < count; ++i) to.push_back(kvpop::scalar_traits<T>::from_float(normal(random)));
  };
  fill(x.q, tokens * query_heads * dim);
  fill(x.k, tokens * kv_heads * dim);
  x.lse.assign(static_cast<std::size_t>(tokens * query_heads), 8.0F);
  x.mass.resize(static_cast<std::size_t>(tokens * query_heads));
  x.wide_q.assign(static_cast<std::size_t>(tokens * dim), 0.5F);
  x.wide_k.assign(static_cast<std::size_t>(tokens * dim), 0.5F);
  x.logits.resize(static_cast<std::size_t>(std::min<index_t>(tokens, 4096) * tokens));
  return x;
}

// FLOP a second of sgemm on one head's logits, in strips of at most 4,096 queries.
template <class T>
double sgemm_rate(const kvpop::host_context& ctx, sequence_data<T>& x, index_t tokens, index_t dim) {
  double seconds = 0;
  for (index_t begin = 0; begin < tokens; begin += 4096) {
    seconds += roofline::sgemm_seconds(ctx, static_cast<int>(std::min<index_t>(4096, tokens - begin)),
                                       static_cast<int>(tokens), static_cast<int>(dim), x.wide_q.data() + begin * dim,
                                       x.wide_k.data(), x.logits.data());
  }
  return 2.0 * static_cast<double>(dim * tokens * tokens) / seconds;
}

// Runs `act` in turns with sgemm and reports its rate beside it.
template <class T, class Act>
void measure(benchmark::State& state, sequence_data<T>& x, index_t tokens, index_t dim, double pairs, const Act& act) {
  const kvpop::host_context ctx = roofline::pool().context();
  const double flop = 2.0 * static_cast<double>(dim * query_heads) * pairs;
  std::vector<double> ratios;
  double best = 0;
  for (auto _ : state) {
    const auto begin = roofline::clock::now();
    act(ctx);
    const double seconds = roofline::seconds_since(begin);
    const double rate = sgemm_rate(ctx, x, tokens, dim);
    best = std::max(best, rate);
    ratios.push_back(flop / seconds / rate);
    state.SetIterationTime(seconds);
  }
  state.counters["FLOP/s"] = benchmark::Counter(flop, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["sgemm_FLOP/s"] = best;
  state.counters["of_sgemm"] = roofline::median(ratios);
  state.counters["ns/pair"] =
      benchmark::Counter(pairs * static_cast<double>(query_heads) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

double seen_pairs(index_t tokens, index_t delay) {
  const auto left = static_cast<double>(tokens - delay);
  return left * (left + 1) / 2;
}

template <class T>
void transposed(benchmark::State& state) {
  const index_t tokens = state.range(0), dim = state.range(1), delay = state.range(2);
  auto x = make<T>(tokens, dim);
  std::vector<std::byte> memory(
      kvpop::transposed_workspace(roofline::pool().context(), 1, tokens, query_heads, kv_heads, dim));
  measure(state, x, tokens, dim, seen_pairs(tokens, delay), [&](const kvpop::host_context& ctx) {
    kvpop::transposed_params params;
    params.delay = delay;
    kvpop::transposed_attention(ctx, kvpop::chunk_view<const T>(x.q.data(), {1, tokens, query_heads, dim}),
                                kvpop::chunk_view<const T>(x.k.data(), {1, tokens, kv_heads, dim}),
                                kvpop::chunk_lse_view<const float>(x.lse.data(), {1, tokens, query_heads}),
                                kvpop::power_mean(2.0F), {x.mass.data(), {1, query_heads, tokens}}, params,
                                {memory.data(), memory.size()});
  });
}

template <class T, index_t Dim>
void dense_lse(benchmark::State& state) {
  const index_t tokens = state.range(0);
  auto x = make<T>(tokens, Dim);
  std::vector<std::byte> memory(
      kvpop::masked_workspace<Dim, Dim>(roofline::pool().context(), 1, tokens, query_heads, kv_heads));
  measure(state, x, tokens, Dim, seen_pairs(tokens, 0), [&](const kvpop::host_context& ctx) {
    kvpop::masked_params params;
    params.lse = {x.lse.data(), {1, tokens, query_heads}};
    kvpop::masked_attention<Dim, Dim>(ctx, kvpop::chunk_view<const T>(x.q.data(), {1, tokens, query_heads, Dim}),
                                      kvpop::chunk_view<const T>(x.k.data(), {1, tokens, kv_heads, Dim}),
                                      kvpop::chunk_view<const T>(), kvpop::chunk_view<float>(), params,
                                      {memory.data(), memory.size()});
  });
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "D", "delay"});
  for (const index_t dim : {64, 128}) {
    for (const index_t tokens : {1024, 2048, 4096, 8192, 16384}) b->Args({tokens, dim, 0});
    b->Args({8192, dim, 4096});  // a quarter of the pairs is left, and a quarter of the time
  }
  b->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.5);
}

BENCHMARK(transposed<float>)->Apply(shapes);
BENCHMARK(transposed<kvpop::bfloat16>)->Apply(shapes);
BENCHMARK(dense_lse<float, 64>)->ArgName("tokens")->Arg(8192)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(dense_lse<float, 128>)->ArgName("tokens")->Arg(8192)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  roofline::print_machine(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
