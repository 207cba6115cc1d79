#include "kvpop/attention/transposed.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "support/counting_new.hpp"  // news_of
#include "support/generators.hpp"    // generator, draws
#include "support/golden.hpp"        // tensor
#include "support/message_of.hpp"    // message_of

// Every mass against the definition in double: all logits, formed one by one.

using kvpop::index_t;
using kvpop_test::generator;
using kvpop_test::message_of;

namespace {

using masses_view =
    kvpop::view<float, kvpop::host_memory, kvpop::axis::sequence, kvpop::axis::head, kvpop::axis::token>;

struct bytes_owner {
  explicit bytes_owner(std::size_t size) : bytes(size) {}
  std::vector<std::byte> bytes;
  kvpop::workspace get() { return {bytes.data(), bytes.size()}; }
};

// Inputs of one call, as the library is handed them.
template <class T>
struct inputs {
  index_t sequences = 1, tokens = 0, query_heads = 1, kv_heads = 1, dim = 1;
  std::vector<T> q, k;
  std::vector<float> lse;
  std::vector<std::int32_t> segments;
  kvpop::transposed_params params;

  [[nodiscard]] kvpop::chunk_view<const T> queries() const { return {q.data(), {sequences, tokens, query_heads, dim}}; }
  [[nodiscard]] kvpop::chunk_view<const T> keys() const { return {k.data(), {sequences, tokens, kv_heads, dim}}; }
  [[nodiscard]] kvpop::chunk_lse_view<const float> sums() const {
    return {lse.data(), {sequences, tokens, query_heads}};
  }
  [[nodiscard]] index_t key_count() const {
    return params.key_count >= 0 ? params.key_count : tokens - params.first_key;
  }

  template <class R>
  std::vector<float> run(const kvpop::host_context& ctx, const R& reduce) const {
    std::vector<float> mass(static_cast<std::size_t>(sequences * query_heads * key_count()), -77.0F);
    bytes_owner memory(kvpop::transposed_workspace(ctx, sequences, tokens, query_heads, kv_heads, dim));
    kvpop::transposed_attention(ctx, queries(), keys(), sums(), reduce,
                                masses_view(mass.data(), {sequences, query_heads, key_count()}), params, memory.get());
    return mass;
  }

  [[nodiscard]] double logit(index_t b, index_t d, index_t h, index_t t) const {
    double dot = 0;
    const T* a = queries().row(b, d, h);
    const T* c = keys().row(b, t, h / (query_heads / kv_heads));
    for (index_t i = 0; i < dim; ++i)
      dot += static_cast<double>(static_cast<float>(a[i])) * static_cast<double>(static_cast<float>(c[i]));
    const double scale = params.attention.scale != 0.0F ? static_cast<double>(params.attention.scale)
                                                        : 1.0 / std::sqrt(static_cast<double>(dim));
    const double cap = static_cast<double>(params.attention.soft_cap);
    return cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale;
  }
  [[nodiscard]] bool counts(index_t b, index_t d, index_t t) const {
    const index_t window = params.attention.sliding_window;
    return d >= t + params.delay && (window == 0 || d < t + window) && (segments.empty() || same_document(b, t, d));
  }
  [[nodiscard]] bool same_document(index_t b, index_t t, index_t d) const {
    for (index_t i = t; i < d; ++i)
      if (segments[static_cast<std::size_t>(b * tokens + i)] != segments[static_cast<std::size_t>(b * tokens + i + 1)])
        return false;
    return true;
  }
};

template <class T>
inputs<T> draw(generator& random) {
  inputs<T> x;
  x.sequences = random.integer(1, 2);
  x.tokens = random.pick<index_t>({1, 2, 5, 17, 31, 63, 64, 65, 97});
  x.kv_heads = random.integer(1, 2);
  x.query_heads = x.kv_heads * random.integer(1, 3);
  x.dim = random.pick<index_t>({1, 3, 8, 19, 32});
  const float spread = static_cast<float>(random.pick({0.2, 1.0, 4.0}));
  for (index_t i = 0; i < x.sequences * x.tokens * x.query_heads * x.dim; ++i)
    x.q.push_back(kvpop::scalar_traits<T>::from_float(random.normal() * spread));
  for (index_t i = 0; i < x.sequences * x.tokens * x.kv_heads * x.dim; ++i)
    x.k.push_back(kvpop::scalar_traits<T>::from_float(random.normal()));
  x.params.delay = random.pick<index_t>({0, 0, 1, 7, 40, 200});
  if (random.chance(0.3)) x.params.attention.sliding_window = random.integer(1, 50);
  if (random.chance(0.3)) x.params.attention.soft_cap = 2.0F;
  if (random.chance(0.3)) x.params.attention.scale = 0.7F;
  if (random.chance(0.4)) {
    std::int32_t id = 0;
    for (index_t i = 0; i < x.sequences * x.tokens; ++i) x.segments.push_back(id += random.chance(0.05) ? 1 : 0);
    x.params.segments = {x.segments.data(), {x.sequences, x.tokens}};
  }
  if (random.chance(0.3)) {
    x.params.first_key = random.integer(0, x.tokens);
    x.params.key_count = random.integer(0, x.tokens - x.params.first_key);
  }
  for (index_t i = 0; i < x.sequences * x.tokens * x.query_heads; ++i)
    x.lse.push_back(random.normal() + 2.0F * spread);  // some logits exceed it: they are clamped
  return x;
}

template <class T>
double worst_error(const inputs<T>& x, const std::vector<float>& mass, double alpha) {
  double worst = 0;
  for (index_t b = 0; b < x.sequences; ++b) {
    for (index_t h = 0; h < x.query_heads; ++h) {
      for (index_t i = 0; i < x.key_count(); ++i) {
        const index_t t = x.params.first_key + i;
        double sum = 0, largest = 0;
        index_t queries = 0;
        for (index_t d = 0; d < x.tokens; ++d) {
          if (!x.counts(b, d, t)) continue;
          const double l = x.logit(b, d, h, t);
          largest = std::fmax(largest, std::fabs(l));
          sum += std::pow(std::exp(std::fmin(l - static_cast<double>(x.sums()(b, d, h)), 0.0)), alpha);
          ++queries;
        }
        const double want = std::pow(sum / static_cast<double>(queries > 1 ? queries : 1), 1 / alpha);
        const double got =
            static_cast<double>(mass[static_cast<std::size_t>((b * x.query_heads + h) * x.key_count() + i)]);
        // A logit's rounding error moves its weight by as much, relatively.
        worst = std::fmax(worst, std::fabs(got - want) / (want * (1 + largest) + 1e-30));
      }
    }
  }
  return worst;
}

TEST_CASE_TEMPLATE("the masses are those of the definition, for odd shapes, bounds, segments and key ranges", T, float,
                   kvpop::bfloat16, kvpop::float16) {
  generator random(760);
  for (int i = 0; i < kvpop_test::draws(350); ++i) {  // 1,050 draws over the three types
    const inputs<T> x = draw<T>(random);
    const double alpha = random.pick({1.0, 2.0, 1.5});
    REQUIRE(worst_error(x, x.run({}, kvpop::power_mean(static_cast<float>(alpha))), alpha) < 5e-6);
  }
}

struct golden_case {
  inputs<float> x;
  golden_case(const std::string& lse, const std::string& segments) {
    const auto q = golden::tensor<double>("attention.q"), k = golden::tensor<double>("attention.k");
    const auto sums = golden::tensor<double>(lse);
    x.query_heads = q.shape[0], x.tokens = q.shape[1], x.dim = q.shape[2], x.kv_heads = k.shape[0];
    for (index_t t = 0; t < x.tokens; ++t) {
      for (index_t h = 0; h < x.query_heads; ++h) {
        for (index_t d = 0; d < x.dim; ++d) x.q.push_back(static_cast<float>(q.row(h)[t * x.dim + d]));
        x.lse.push_back(static_cast<float>(sums.row(h)[t]));
      }
      for (index_t h = 0; h < x.kv_heads; ++h)
        for (index_t d = 0; d < x.dim; ++d) x.k.push_back(static_cast<float>(k.row(h)[t * x.dim + d]));
    }
    if (!segments.empty()) {
      x.segments = golden::tensor<std::int32_t>(segments).values;
      x.params.segments = {x.segments.data(), {1, x.tokens}};
    }
    x.params.delay = golden::params()["attention"]["window"];
  }
  template <class R>
  void check(const std::string& name, const R& reduce) const {
    CAPTURE(name);
    const auto want = golden::tensor<double>(name);
    const std::vector<float> got = x.run({}, reduce);
    REQUIRE(got.size() == want.values.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      REQUIRE(std::abs(static_cast<double>(got[i]) - want.values[i]) <= 2e-5 * want.values[i]);
  }
};

TEST_CASE("attention.mass_* of the golden data") {
  const golden_case dense("attention.dense_lse", "");
  dense.check("attention.mass_mean", kvpop::power_mean(1.0F));
  dense.check("attention.mass_power1.5", kvpop::power_mean(1.5F));
  dense.check("attention.mass_rms", kvpop::power_mean(2.0F));
  dense.check("attention.mass_power3", kvpop::power_mean(3.0F));
  dense.check("attention.mass_sum", kvpop::weight_sum{});
  dense.check("attention.mass_max", kvpop::largest_weight{});
  dense.check("attention.mass_sum", kvpop::discounted_sum(1.0F));
  golden_case("attention.segment_lse", "attention.segments")
      .check("attention.segment_mass_mean", kvpop::power_mean(1.0F));
  golden_case("attention.sparse_lse", "").check("attention.sparse_mass_mean", kvpop::power_mean(1.0F));
}

// A reduction of a user's own, as the header shows it: how many queries give a key more than half of their attention.
struct count_above_half {
  static kvpop::simd::vec initial() noexcept { return kvpop::simd::vec{}; }
  static kvpop::simd::vec take(kvpop::simd::vec state, kvpop::simd::vec log_weight, kvpop::simd::vec /*age*/) noexcept {
    return state + kvpop::simd::select(log_weight > kvpop::simd::broadcast(-0.6931F), kvpop::simd::broadcast(1.0F),
                                       kvpop::simd::vec{});
  }
  static kvpop::simd::vec join(kvpop::simd::vec a, kvpop::simd::vec b) noexcept { return a + b; }
  static float finish(float state, index_t /*queries*/) noexcept { return state; }
};

// Ages, weighed: sum over queries of age. Shows that the age is d - t - delay at every tile edge.
struct age_sum {
  static kvpop::simd::vec initial() noexcept { return kvpop::simd::vec{}; }
  static kvpop::simd::vec take(kvpop::simd::vec state, kvpop::simd::vec, kvpop::simd::vec age) noexcept {
    return state + age;
  }
  static kvpop::simd::vec join(kvpop::simd::vec a, kvpop::simd::vec b) noexcept { return a + b; }
  static float finish(float state, index_t /*queries*/) noexcept { return state; }
};

TEST_CASE("reductions of one's own") {
  generator random(761);
  for (int i = 0; i < kvpop_test::draws(100); ++i) {
    inputs<float> x = draw<float>(random);
    const auto counted = x.run({}, count_above_half{});
    const auto ages = x.run({}, age_sum{});
    for (index_t b = 0; b < x.sequences; ++b) {
      for (index_t h = 0; h < x.query_heads; ++h) {
        for (index_t key = 0; key < x.key_count(); ++key) {
          const index_t t = x.params.first_key + key;
          index_t least = 0, most = 0, age = 0;
          for (index_t d = 0; d < x.tokens; ++d) {
            if (!x.counts(b, d, t)) continue;
            const double w = x.logit(b, d, h, t) - static_cast<double>(x.sums()(b, d, h));
            least += w > -0.6931 + 1e-4 ? 1 : 0;  // a logit on the edge may fall either way
            most += w > -0.6931 - 1e-4 ? 1 : 0;
            age += d - t - x.params.delay;
          }
          const auto at = static_cast<std::size_t>((b * x.query_heads + h) * x.key_count() + key);
          REQUIRE(counted[at] >= static_cast<float>(least));
          REQUIRE(counted[at] <= static_cast<float>(most));
          REQUIRE(ages[at] == static_cast<float>(age));
        }
      }
    }
  }
}

TEST_CASE("a needle: one query that puts everything on one key, at every pair of tile edges") {
  inputs<float> x;
  x.tokens = 2 * kvpop::transposed_key_block + 3, x.dim = 2;
  x.params.attention.scale = 1.0F;
  x.q.assign(static_cast<std::size_t>(x.tokens * 2), 0.0F);
  x.lse.assign(static_cast<std::size_t>(x.tokens), 90.0F);
  for (index_t t = 0; t < x.tokens; ++t) x.k.insert(x.k.end(), {static_cast<float>(t), 1.0F});
  const std::vector<index_t> edges{0, 1, 15, 16, 63, 64, 65, 255, 256, 257, 511, 512, 514};
  for (const index_t t : edges) {
    for (const index_t d : edges) {
      if (d < t) continue;
      // logit = 90 - (t' - t)^2 needs more dimensions; 90 - 100 |...| is enough on one side each: two queries would do.
      inputs<float> y = x;
      y.k.clear();
      for (index_t i = 0; i < x.tokens; ++i) y.k.insert(y.k.end(), {i == t ? 1.0F : 0.0F, 0.0F});
      y.q[static_cast<std::size_t>(2 * d)] = 90.0F;
      const auto mass = y.run({}, kvpop::weight_sum{});
      for (index_t i = 0; i < x.tokens; ++i) {
        const float got = mass[static_cast<std::size_t>(i)];
        REQUIRE((i == t ? got > 0.99F && got < 1.01F : got < 1e-30F));
      }
    }
  }
}

TEST_CASE("threads change no bit, and neither does the key range that is asked for") {
  generator random(762);
  kvpop::thread_pool pool(3);
  for (int i = 0; i < kvpop_test::draws(60); ++i) {
    inputs<float> x = draw<float>(random);
    x.params.first_key = 0, x.params.key_count = -1;
    const auto one = x.run({}, kvpop::power_mean(2.0F));
    REQUIRE(x.run(pool.context(), kvpop::power_mean(2.0F)) == one);
    const auto strided = [&] {  // q and k inside one fused projection
      std::vector<float> fused;
      const index_t width = (x.query_heads + x.kv_heads) * x.dim;
      for (index_t r = 0; r < x.sequences * x.tokens; ++r) {
        fused.insert(fused.end(), x.q.begin() + r * x.query_heads * x.dim,
                     x.q.begin() + (r + 1) * x.query_heads * x.dim);
        fused.insert(fused.end(), x.k.begin() + r * x.kv_heads * x.dim, x.k.begin() + (r + 1) * x.kv_heads * x.dim);
      }
      std::vector<float> mass(one.size());
      bytes_owner memory(kvpop::transposed_workspace({}, x.sequences, x.tokens, x.query_heads, x.kv_heads, x.dim));
      const kvpop::chunk_view<const float> q(fused.data(), {x.sequences, x.tokens, x.query_heads, x.dim},
                                             {x.tokens * width, width, x.dim, 1});
      const kvpop::chunk_view<const float> k(fused.data() + x.query_heads * x.dim,
                                             {x.sequences, x.tokens, x.kv_heads, x.dim},
                                             {x.tokens * width, width, x.dim, 1});
      kvpop::transposed_attention({}, q, k, x.sums(), kvpop::power_mean(2.0F),
                                  masses_view(mass.data(), {x.sequences, x.query_heads, x.tokens}), x.params,
                                  memory.get());
      return mass;
    };
    REQUIRE(strided() == one);
  }
}

TEST_CASE("dead tiles are skipped: the number that is visited follows from the bounds") {
  inputs<float> x;
  x.tokens = 1000, x.dim = 1, x.query_heads = 2;
  x.q.assign(2000, 0.1F), x.k.assign(1000, 0.1F), x.lse.assign(2000, 3.0F);
  index_t visited = -1;
  x.params.visited_tiles = &visited;
  const auto tiles = [&](index_t delay, index_t document) {
    constexpr index_t panel = kvpop::transposed_kernel::panel, block = kvpop::transposed_key_block;
    index_t count = 0;
    for (index_t begin = 0; begin < x.tokens; begin += block) {
      index_t from = x.tokens, to = 0;  // queries that see any key of the block
      const auto end_of = [&](index_t t) { return std::min(x.tokens, (t / document + 1) * document); };
      const auto first_of = [&](index_t t) { return std::min(t + delay, x.tokens); };
      for (index_t t = begin; t < std::min(begin + block, x.tokens); ++t) {
        from = std::min(from, first_of(t));
        to = std::max(to, std::max(first_of(t), end_of(t)));
      }
      for (index_t d = from; d < to; d += kvpop::transposed_query_tile) {
        const index_t last = std::min(d + kvpop::transposed_query_tile, to);
        for (index_t p = begin; p < std::min(begin + block, x.tokens); p += panel) {
          index_t first = x.tokens, end = 0;
          for (index_t t = p; t < std::min(p + panel, x.tokens); ++t) {
            first = std::min(first, first_of(t));
            end = std::max(end, std::max(first_of(t), end_of(t)));
          }
          count += first < last && end > d ? x.query_heads : 0;
        }
      }
    }
    return count;
  };
  for (const index_t delay : {0, 100, 999, 1000, 5000}) {
    for (const index_t document : {1000, 250, 37}) {
      x.segments.clear();
      for (index_t t = 0; t < x.tokens; ++t) x.segments.push_back(static_cast<std::int32_t>(t / document));
      x.params.segments = {x.segments.data(), {1, x.tokens}};
      x.params.delay = delay;
      x.run({}, kvpop::weight_sum{});
      CAPTURE(delay);
      CAPTURE(document);
      CHECK(visited == tiles(delay, document));
    }
  }
}

TEST_CASE("infinite, NaN and huge inputs reach only the keys and queries they belong to") {
  inputs<float> x;
  x.tokens = 40, x.dim = 3;
  generator random(763);
  for (index_t i = 0; i < x.tokens * x.dim; ++i) x.q.push_back(random.normal()), x.k.push_back(random.normal());
  x.lse.assign(40, 2.0F);
  const auto clean = x.run({}, kvpop::weight_sum{});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 3e38F}) {
    inputs<float> y = x;
    y.k[3 * 7 + 1] = bad;  // key 7 alone
    const auto mass = y.run({}, kvpop::weight_sum{});
    for (std::size_t t = 0; t < 40; ++t) {
      if (t != 7) REQUIRE(mass[t] == clean[t]);
    }
    y = x;
    y.q[3 * 7 + 1] = bad;  // query 7: keys 0 to 7
    const auto by_query = y.run({}, kvpop::weight_sum{});
    for (std::size_t t = 8; t < 40; ++t) REQUIRE(by_query[t] == clean[t]);
  }
  inputs<float> hidden = x;
  hidden.lse[30] = -std::numeric_limits<float>::infinity();  // a query that saw nothing: clamped, so it weighs 1
  const auto mass = hidden.run({}, kvpop::weight_sum{});
  CHECK(mass[31] == clean[31]);
  CHECK(mass[3] > clean[3]);
}

TEST_CASE("memory is linear in the sequence: workspace and resident set at 32,768 tokens") {
  const index_t tokens = 32768;
  const auto bytes = [](index_t n) { return kvpop::transposed_workspace({}, 1, n, 1, 1, 8); };
  CHECK(static_cast<double>(bytes(2 * tokens)) <= 2.1 * static_cast<double>(bytes(tokens)));
  CHECK(bytes(tokens) <= static_cast<std::size_t>(64 * tokens));
  inputs<float> x;
  x.tokens = tokens, x.dim = 8;
  x.q.assign(static_cast<std::size_t>(tokens * 8), 0.1F), x.k.assign(static_cast<std::size_t>(tokens * 8), 0.1F);
  x.lse.assign(static_cast<std::size_t>(tokens), 10.0F);
  x.params.delay = kvpop_test::sanitized ? tokens - 512 : 0;
  std::vector<float> mass(static_cast<std::size_t>(tokens));
  bytes_owner memory(bytes(tokens));
  const auto resident = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = resident();
  CHECK(kvpop_test::news_of([&] {
          kvpop::transposed_attention({}, x.queries(), x.keys(), x.sums(), kvpop::power_mean(1.0F),
                                      masses_view(mass.data(), {1, 1, tokens}), x.params, memory.get());
        }) == 0);
  if (!kvpop_test::sanitized) CHECK(resident() - before <= 4096);  // the attention matrix would take 4 GiB
  CHECK(mass[0] > 0.0F);
}

TEST_CASE("what does not fit is refused by name, and nothing is written") {
  inputs<float> x;
  x.tokens = 4, x.query_heads = 2, x.kv_heads = 2, x.dim = 3;
  x.q.assign(24, 0.0F), x.k.assign(24, 0.0F), x.lse.assign(8, 0.0F);
  std::vector<float> mass(8, -5.0F);
  bytes_owner memory(kvpop::transposed_workspace({}, 1, 4, 2, 2, 3));
  const auto run = [&](const kvpop::chunk_view<const float>& q, const kvpop::chunk_view<const float>& k,
                       const kvpop::transposed_params& params, index_t keys, kvpop::workspace space) {
    return message_of([&] {
      kvpop::transposed_attention({}, q, k, x.sums(), kvpop::weight_sum{}, masses_view(mass.data(), {1, 2, keys}),
                                  params, space);
    });
  };
  CHECK(run({x.q.data(), {1, 4, 3, 2}}, {x.k.data(), {1, 4, 2, 2}}, {}, 4, memory.get()) ==
        "kvpop: transposed_attention: q.extent(head) is 3; it must be a multiple of k.extent(head)");
  CHECK(run({x.q.data(), {1, 4, 2, 2}}, x.keys(), {}, 4, memory.get()) ==
        "kvpop: transposed_attention: q.extent(dim) is 2; k has 3");
  CHECK(run(x.queries(), x.keys(), {}, 3, memory.get()) ==
        "kvpop: transposed_attention: mass.extent(token) is 3; the key range has 4");
  CHECK(run({x.q.data(), {1, 4, 2, 3}, {24, 6, 3, 2}}, x.keys(), {}, 4, memory.get()) ==
        "kvpop: transposed_attention: q.stride(dim) is 2; it must be 1");
  CHECK(run(x.queries(), {x.k.data(), {1, 4, 2, 3}, {24, 6, 3, 0}}, {}, 4, memory.get()) ==
        "kvpop: transposed_attention: k.stride(dim) is 0; it must be 1");
  CHECK(run({nullptr, {1, 4, 2, 3}}, x.keys(), {}, 4, memory.get()) == "kvpop: transposed_attention: q has no data");
  CHECK(run(x.queries(), {nullptr, {1, 4, 2, 3}}, {}, 4, memory.get()) == "kvpop: transposed_attention: k has no data");
  const auto run_sums = [&](const float* sums, float* to) {
    return message_of([&] {
      kvpop::transposed_attention({}, x.queries(), x.keys(), {sums, {1, 4, 2}}, kvpop::weight_sum{},
                                  masses_view(to, {1, 2, 4}), {}, memory.get());
    });
  };
  CHECK(run_sums(nullptr, mass.data()) == "kvpop: transposed_attention: lse has no data");
  CHECK(run_sums(x.lse.data(), nullptr) == "kvpop: transposed_attention: mass has no data");
  kvpop::transposed_params params;
  params.delay = -1;
  CHECK(run(x.queries(), x.keys(), params, 4, memory.get()) ==
        "kvpop: transposed_params.delay is -1; it must be at least 0");
  params = {};
  params.first_key = 5;
  CHECK(run(x.queries(), x.keys(), params, 4, memory.get()) ==
        "kvpop: transposed_params.first_key is 5; it must be within the tokens");
  params.first_key = 2, params.key_count = 3;
  CHECK(run(x.queries(), x.keys(), params, 3, memory.get()) ==
        "kvpop: transposed_params.key_count is 3; it must be -1, or within the tokens");
  kvpop::workspace small = memory.get();
  small.bytes = 100;
  CHECK(run(x.queries(), x.keys(), {}, 4, small).substr(0, 57) ==
        "kvpop: transposed_attention: workspace.bytes is 100; at l");
  for (const float m : mass) CHECK(m == -5.0F);
}

}  // namespace
