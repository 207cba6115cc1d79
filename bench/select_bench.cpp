#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "kvpop/select/death_times.hpp"
#include "kvpop/select/death_times_fenwick.hpp"
#include "kvpop/select/pop.hpp"
#include "kvpop/select/top_k.hpp"
#include "roofline.hpp"

// Selection on one core, each verb in turns with what it is compared with: a plain read of the same priorities (a pop
// reads them all, and the positions of most), or std::nth_element on (key, position) pairs, which are ready when its clock starts.
// The clock is the thread's own: other work on the machine does not count.
namespace {

using kvpop::host_context;
using kvpop::index_t;
using kvpop::row_view;

enum pattern { random_order, equal, ascending, few_values, drifting };
constexpr const char* pattern_names[] = {"random", "equal", "ascending", "few values", "drifting"};

std::vector<double> make_priorities(index_t rows, index_t n, index_t kind) {
  std::mt19937_64 engine(1);
  std::normal_distribution<> normal;
  std::vector<double> priority;
  for (index_t i = 0; i < rows * n; ++i) {
    const auto t = static_cast<double>(i % n);
    switch (kind) {
      case random_order:
        priority.push_back(normal(engine));
        break;
      case equal:
        priority.push_back(1.0);
        break;
      case ascending:
        priority.push_back(t);
        break;
      case few_values:
        priority.push_back(static_cast<double>(engine() % 3));
        break;
      default:
        priority.push_back(normal(engine) + 1e-3 * t);
    }
  }
  return priority;
}

double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

benchmark::Counter rate(double per_iteration) {
  return {per_iteration, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000};
}

// Enough heads that nothing stays in the second-level cache between two pops of one. As in a cache, the slots are in no
// order and the tokens of the window have no score yet.
void pop(benchmark::State& state) {
  const index_t slots = state.range(0);
  const index_t heads = (index_t{8} << 20) / slots;
  std::vector<double> priority = make_priorities(heads, slots, state.range(1));
  std::vector<index_t> position(priority.size());
  const std::vector<std::uint8_t> pinned(priority.size(), 0);
  std::mt19937_64 engine(2);
  for (index_t head = 0; head < heads; ++head) {
    const auto first = position.begin() + head * slots;
    for (index_t i = 0; i < slots; ++i) first[i] = i;
    std::shuffle(first, first + slots, engine);
    for (index_t i = 0; i < slots; ++i) {
      if (first[i] > slots - 257) priority[static_cast<std::size_t>(head * slots + i)] = std::nan("");
    }
  }
  std::vector<double> ratios;
  double raw = 0;
  const double bytes = static_cast<double>(priority.size() * sizeof(double));
  for (auto _ : state) {
    const auto begin = now();
    for (index_t at = 0; at < heads * slots; at += slots) {
      benchmark::DoNotOptimize(
          kvpop::pop(priority.data() + at, position.data() + at, pinned.data() + at, slots, {4, slots - 257}));
    }
    const double seconds = now() - begin;
    const double ready = now();
    benchmark::DoNotOptimize(
        roofline::read_all(reinterpret_cast<const float*>(priority.data()), static_cast<index_t>(2 * priority.size())));
    const double reading = now() - ready;
    raw = std::max(raw, bytes / reading);
    ratios.push_back(reading / seconds);
    state.SetIterationTime(seconds);
  }
  state.SetLabel(pattern_names[state.range(1)]);
  state.counters["slots/s"] = rate(static_cast<double>(heads * slots));
  state.counters["priority_bytes/s"] = rate(bytes);
  state.counters["raw_read/s"] = benchmark::Counter(raw, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_raw"] = roofline::median(ratios);
  // Inverted, the rate of pops is the seconds that one takes.
  state.counters["a_pop"] = benchmark::Counter(
      static_cast<double>(heads), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void top_k(benchmark::State& state) {
  const index_t tokens = state.range(0);
  const index_t k = state.range(1);
  const index_t rows =
      std::max<index_t>(1, (index_t{1} << 18) / tokens);  // too many for branches to be learnt by heart
  const auto order = static_cast<kvpop::top_k_order>(state.range(3));
  const std::vector<double> priority = make_priorities(rows, tokens, state.range(2));
  std::vector<index_t> index(static_cast<std::size_t>(rows * k));
  std::vector<std::byte> memory(kvpop::top_k_workspace({}, rows, tokens, k));
  std::vector<std::pair<std::uint64_t, index_t>> pairs(priority.size());
  std::vector<double> ratios;
  double nth_element = 0;
  for (auto _ : state) {
    const auto begin = now();
    kvpop::top_k({}, {priority.data(), {rows, tokens}}, {}, {index.data(), {rows, k}}, order,
                 {memory.data(), memory.size()});
    const double seconds = now() - begin;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      pairs[i] = {kvpop::order_key(priority[i]), static_cast<index_t>(i)};
    }
    const auto selecting = now();
    for (auto row = pairs.begin(); row != pairs.end(); row += tokens) {
      std::nth_element(row, row + k, row + tokens, std::greater<>());
    }
    const double standard = now() - selecting;
    benchmark::DoNotOptimize(pairs.data());
    nth_element = std::max(nth_element, static_cast<double>(pairs.size()) / standard);
    ratios.push_back(standard / seconds);
    state.SetIterationTime(seconds);
  }
  state.SetLabel(pattern_names[state.range(2)]);
  state.counters["tokens/s"] = rate(static_cast<double>(rows * tokens));
  state.counters["priority_bytes/s"] = rate(static_cast<double>(priority.size() * sizeof(double)));
  state.counters["nth_element/s"] =
      benchmark::Counter(nth_element, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_nth_element"] = roofline::median(ratios);
}

using death_times_verb = void (*)(const host_context&, const row_view<const double>&,
                                  const row_view<const std::uint8_t>&, const row_view<index_t>&, const kvpop::budget&,
                                  const kvpop::workspace&);
using workspace_function = std::size_t (*)(const host_context&, index_t, index_t, const kvpop::budget&);

template <death_times_verb Verb, workspace_function WorkspaceBytes>
void death_times(benchmark::State& state) {
  const index_t tokens = state.range(0);
  const index_t heads = 8;
  const kvpop::budget limits{4, 256, state.range(1)};
  const std::vector<double> priority = make_priorities(heads, tokens, state.range(2));
  std::vector<index_t> death(priority.size());
  std::vector<std::byte> memory(WorkspaceBytes({}, heads, tokens, limits));
  const double bytes = static_cast<double>(heads * tokens) * (sizeof(double) + sizeof(index_t));
  std::vector<double> ratios;
  double raw = 0;
  for (auto _ : state) {
    const double begin = now();
    Verb({}, {priority.data(), {heads, tokens}}, {}, {death.data(), {heads, tokens}}, limits,
         {memory.data(), memory.size()});
    benchmark::DoNotOptimize(death.data());
    const double seconds = now() - begin;
    const double ready = now();
    const auto floats = static_cast<index_t>(2 * priority.size());
    benchmark::DoNotOptimize(roofline::read_all(reinterpret_cast<const float*>(priority.data()), floats));
    benchmark::DoNotOptimize(roofline::read_all(reinterpret_cast<const float*>(death.data()), floats));
    const double reading = now() - ready;
    raw = std::max(raw, bytes / reading);
    ratios.push_back(reading / seconds);
    state.SetIterationTime(seconds);
  }
  state.SetLabel(pattern_names[state.range(2)]);
  state.counters["tokens/s"] = rate(static_cast<double>(heads * tokens));
  state.counters["bytes/s"] = rate(bytes);
  state.counters["raw_read/s"] = benchmark::Counter(raw, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  state.counters["of_raw"] = roofline::median(ratios);
}

constexpr int by_rank = static_cast<int>(kvpop::top_k_order::rank);
constexpr int by_position = static_cast<int>(kvpop::top_k_order::position);

BENCHMARK(pop)
    ->ArgNames({"slots", "pattern"})
    ->ArgsProduct({{512, 1024, 2048, 4096, 8192, 16384, 32768}, {random_order}})
    ->ArgsProduct({{4096}, {equal, ascending}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(top_k)
    ->ArgNames({"tokens", "k", "pattern", "order"})
    ->ArgsProduct({{4096}, {1024}, {random_order, equal, ascending, few_values}, {by_rank, by_position}})
    ->ArgsProduct({{131072}, {4096}, {random_order, equal, ascending, few_values}, {by_rank, by_position}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(death_times<kvpop::death_times, kvpop::death_times_workspace>)
    ->Name("death_times")
    ->ArgNames({"tokens", "topk", "pattern"})
    ->ArgsProduct({{16384}, {3772}, {random_order, equal, ascending, drifting}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(death_times<kvpop::death_times_fenwick, kvpop::death_times_fenwick_workspace>)
    ->Name("death_times_fenwick")
    ->ArgNames({"tokens", "topk", "pattern"})
    ->ArgsProduct({{16384}, {3772}, {random_order, equal, ascending, drifting}})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) {
  roofline::print_machine(argv);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
