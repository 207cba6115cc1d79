#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "kvpop/attention/prefill_head.hpp"
#include "kvpop/core/buffer.hpp"
#include "roofline.hpp"

// prefill_head: a chunk of queries over held keys and itself, one task a KV head. FLOP are 2 (Dk + Dv) for every pair of a
// query row and a key that it sees. The ceiling is OpenBLAS' sgemm forming all logits of the same sizes, head by head with
// all threads, taken in turns with it; a large square product is given beside it.
namespace {

using kvpop::index_t;

template <class T, index_t Dim>
struct head_data {
  std::vector<T> k, v;
  std::vector<index_t> position, death;
  std::vector<float> q, out, lse;
  kvpop::buffer<std::byte> memory;
  kvpop::prefill_scratch<Dim, Dim> scratch{};
};

template <class T, index_t Dim>
void fill(head_data<T, Dim>& head, index_t held, index_t chunk, index_t group, int dying_percent,
          std::mt19937& random) {
  std::normal_distribution<float> normal;
  const auto keys = static_cast<std::size_t>(held + chunk);
  head.k.resize(keys * Dim);
  head.v.resize(keys * Dim);
  for (T& x : head.k) x = kvpop::scalar_traits<T>::from_float(normal(random));
  for (T& x : head.v) x = kvpop::scalar_traits<T>::from_float(normal(random));
  head.position.resize(keys);
  head.death.assign(keys, kvpop::never);
  for (std::size_t i = 0; i < keys; ++i) head.position[i] = static_cast<index_t>(i);
  for (std::size_t i = 0; i < keys; ++i) {
    if (static_cast<int>(random() % 100U) < dying_percent) {
      head.death[i] = held + static_cast<index_t>(random() % static_cast<unsigned>(chunk)) + 1;
    }
  }
  head.q.resize(static_cast<std::size_t>(chunk * group) * Dim);
  for (float& x : head.q) x = normal(random);
  head.out.resize(head.q.size());
  head.lse.resize(static_cast<std::size_t>(chunk * group));
  kvpop::carver count;
  static_cast<void>(kvpop::prefill_scratch<Dim, Dim>::carve(count, group));
  head.memory = kvpop::buffer<std::byte>(static_cast<index_t>(count.bytes()));
  kvpop::carver carve(kvpop::workspace{head.memory.data(), head.memory.bytes()}, "bench");
  head.scratch = kvpop::prefill_scratch<Dim, Dim>::carve(carve, group);
}

template <class T, index_t Dim>
double visible_pairs(const head_data<T, Dim>& head, index_t held, index_t chunk, index_t group) {
  double pairs = 0;
  for (std::size_t i = 0; i < head.position.size(); ++i) {
    const index_t first = std::max(head.position[i], held);
    const index_t last = std::min(head.death[i] - 1, held + chunk - 1);
    pairs += static_cast<double>(std::max<index_t>(0, last - first + 1) * group);
  }
  return pairs;
}

template <class T, index_t Dim>
void prefill(benchmark::State& state) {
  const index_t kv_heads = 8;
  const index_t group = state.range(0);
  const index_t chunk = state.range(1);
  const index_t held = state.range(2) - chunk;
  const kvpop::host_context ctx = roofline::pool().context();
  std::vector<head_data<T, Dim>> heads(static_cast<std::size_t>(kv_heads));
  std::mt19937 random(1);
  double flop = 0;
  for (auto& head : heads) {
    fill(head, held, chunk, group, static_cast<int>(state.range(3)), random);
    flop += 4.0 * Dim * visible_pairs(head, held, chunk, group);
  }
  const int rows = static_cast<int>(chunk * group);
  const int keys = static_cast<int>(held + chunk);
  std::vector<float> wide(static_cast<std::size_t>(keys) * Dim, 0.5F);
  std::vector<float> logits(static_cast<std::size_t>(rows) * static_cast<std::size_t>(keys));
  constexpr int side = 2048;
  std::vector<float> square(static_cast<std::size_t>(side) * side, 0.5F);
  std::vector<float> product(square.size());

  std::vector<double> ratios;
  double sgemm = 0;
  double best_square = 0;
  for (auto _ : state) {
    const auto begin = roofline::clock::now();
    ctx.parallel_for(kv_heads, [&](index_t h) noexcept {
      auto& head = heads[static_cast<std::size_t>(h)];
      const kvpop::key_segment<T> segments[2] = {
          {head.k.data(), head.v.data(), head.position.data(), head.death.data(), held},
          {head.k.data() + held * Dim, head.v.data() + held * Dim, head.position.data() + held,
           head.death.data() + held, chunk}};
      const kvpop::prefill_rows<float, float> view{{head.q.data(), {chunk, group, Dim}},
                                                   {head.out.data(), {chunk, group, Dim}},
                                                   {head.lse.data(), {chunk, group}},
                                                   held};
      kvpop::prefill_head(segments, 2, view, {}, head.scratch);
    });
    const double attention = roofline::seconds_since(begin);
    double multiplying = 0;
    for (auto& head : heads) {
      multiplying += roofline::sgemm_seconds(ctx, rows, keys, Dim, head.q.data(), wide.data(), logits.data());
    }
    const double rate = 2.0 * Dim * rows * keys * static_cast<double>(kv_heads) / multiplying;
    const double squaring =
        roofline::sgemm_seconds(ctx, side, side, side, square.data(), square.data(), product.data());
    best_square = std::max(best_square, 2.0 * side * side * side / squaring);
    sgemm = std::max(sgemm, rate);
    ratios.push_back(flop / attention / rate);
    state.SetIterationTime(attention);
  }
  state.counters["FLOP/s"] = benchmark::Counter(flop, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["sgemm_FLOP/s"] = sgemm;
  state.counters["square_FLOP/s"] = best_square;
  state.counters["of_sgemm"] = roofline::median(ratios);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"group", "chunk", "keys", "dying%"});
  b->Args({4, 512, 4096, 0})->Args({4, 512, 4096, 50})->Args({1, 512, 4096, 0})->Args({8, 512, 4096, 0});
  b->UseManualTime()->Unit(benchmark::kMillisecond)->MinTime(0.5);
}

BENCHMARK(prefill<float, 128>)->Apply(shapes);
BENCHMARK(prefill<kvpop::bfloat16, 128>)->Apply(shapes);

}  // namespace

int main(int argc, char** argv) {
  roofline::print_machine(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
