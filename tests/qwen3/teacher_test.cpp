#include "qwen3/teacher.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <vector>

#include "qwen3/error.hpp"          // load_error
#include "qwen3/kv_cache.hpp"       // make_kv_cache
#include "qwen3/notebook_data.hpp"  // make_notebook
#include "qwen3/tokenizer.hpp"      // tokenizer
#include "run_support.hpp"          // notebook, keep_all, all_logits

namespace {

using namespace qwen3_test;
using qwen3::packed_row;
using qwen3::qkv_chunk;

std::vector<std::int32_t> text(std::uint64_t number, std::size_t tokens) {
  static const qwen3::tokenizer words = qwen3::tokenizer::load(notebook);
  auto ids = words.encode(qwen3::make_notebook({.tokens = static_cast<std::int64_t>(tokens)}, 2, number).text).ids;
  ids.resize(tokens);
  return ids;
}

// What a row's layers are like, and its logits.
struct seen {
  std::vector<std::vector<float>> q, k, lse;  // [layers]
  std::vector<std::vector<float>> targets;    // [layers][kv_heads, tokens]
  std::vector<float> logits;                  // [tokens, vocabulary]
};

seen run(const qwen3::model& network, const packed_row& row, std::int64_t window,
         const qwen3::target_settings& settings) {
  seen s;
  const auto& c = network.config();
  qwen3::teacher dense(c, row, nullptr);
  std::vector<std::byte> scratch;
  dense.set([&](const kvpop::host_context& ctx, std::int64_t, const qkv_chunk& chunk, const float* lse) {
    s.q.emplace_back(chunk.q, chunk.q + chunk.tokens * c.query_width());
    s.k.emplace_back(chunk.k, chunk.k + chunk.tokens * c.kv_width());
    s.lse.emplace_back(lse, lse + chunk.tokens * c.query_heads);
    s.targets.emplace_back(static_cast<std::size_t>(c.kv_heads * chunk.tokens));
    qwen3::layer_targets(ctx, c, chunk, lse, dense.segments(), window, settings, scratch, s.targets.back().data());
  });
  qwen3::activations memory;
  s.logits.resize(static_cast<std::size_t>(row.size() * c.vocabulary));
  network.forward({}, row.tokens, dense, memory, row.size(), s.logits.data());
  return s;
}

}  // namespace

TEST_CASE("the dense pass gives the logits that a cache which keeps everything gives") {
  const qwen3::model network = qwen3::model::open(notebook);
  const packed_row row{text(0, 150), {0}};
  const auto cache = qwen3::make_kv_cache(network.config(), {}, {.plan = keep_all(150)});
  const auto want = all_logits(network, row.tokens, *cache, 150);
  CHECK(relative_error(run(network, row, 8, {}).logits, want) < 1e-5);
}

TEST_CASE("documents of a row do not see each other: each is as it is alone, targets too") {
  const qwen3::model network = qwen3::model::open(notebook);
  const auto& c = network.config();
  const std::vector<std::size_t> sizes{70, 1, 45};
  packed_row packed;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    packed.starts.push_back(packed.size());
    const auto tokens = text(d, sizes[d]);
    packed.tokens.insert(packed.tokens.end(), tokens.begin(), tokens.end());
  }
  const seen all = run(network, packed, 8, {});
  for (std::int64_t d = 0; d < packed.documents(); ++d) {
    const std::int64_t begin = packed.begin(d), n = packed.end(d) - begin;
    const packed_row alone{{packed.tokens.begin() + begin, packed.tokens.begin() + begin + n}, {0}};
    const seen one = run(network, alone, 8, {});
    const auto part = [&](const std::vector<float>& x, std::int64_t width) {
      return std::vector<float>(x.begin() + begin * width, x.begin() + (begin + n) * width);
    };
    CHECK(relative_error(part(all.logits, c.vocabulary), one.logits) < 1e-4);
    for (std::size_t layer = 0; layer < one.k.size(); ++layer) {
      CHECK(relative_error(part(all.k[layer], c.kv_width()), one.k[layer]) < 1e-4);
      CHECK(relative_error(part(all.lse[layer], c.query_heads), one.lse[layer]) < 1e-4);
      for (std::int64_t h = 0; h < c.kv_heads; ++h) {
        const auto row_of = [&](const std::vector<float>& t, std::int64_t tokens, std::int64_t from) {
          return std::vector<float>(t.begin() + h * tokens + from, t.begin() + h * tokens + from + n);
        };
        CHECK(relative_error(row_of(all.targets[layer], packed.size(), begin), row_of(one.targets[layer], n, 0)) <
              1e-4);
      }
    }
  }
}

TEST_CASE("targets are those of the definition, in double, for every reduction and aggregate") {
  const qwen3::model network = qwen3::model::open(notebook);
  const auto& c = network.config();
  const packed_row row{text(4, 61), {0}};
  constexpr std::int64_t window = 5;
  for (const char* name : {"rms", "mean", "max", "sum", "power:3"}) {
    for (const auto aggregate : {kvpop::group_aggregate::max, kvpop::group_aggregate::mean}) {
      CAPTURE(name);
      qwen3::target_settings settings = qwen3::target_of(name);
      settings.over_group = aggregate;
      const seen s = run(network, row, window, settings);
      const std::int64_t group = c.query_heads / c.kv_heads, n = row.size();
      for (std::size_t layer = 0; layer < s.k.size(); layer += 3) {
        const auto dot = [&](std::int64_t d, std::int64_t h, std::int64_t t) {
          double sum = 0;
          for (std::int64_t i = 0; i < c.head_dim; ++i)
            sum += static_cast<double>(s.q[layer][static_cast<std::size_t>((d * c.query_heads + h) * c.head_dim + i)]) *
                   static_cast<double>(
                       s.k[layer][static_cast<std::size_t>((t * c.kv_heads + h / group) * c.head_dim + i)]);
          return sum / std::sqrt(static_cast<double>(c.head_dim));
        };
        for (std::int64_t t = 0; t < n; t += 7) {
          for (std::int64_t kv = 0; kv < c.kv_heads; ++kv) {
            double largest = -1e9, mean = 0;
            for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
              double sum = 0, most = 0;
              const double count = static_cast<double>(std::max<std::int64_t>(1, n - t - window));
              for (std::int64_t d = t + window; d < n; ++d) {
                double total = 0;
                for (std::int64_t u = 0; u <= d; ++u) total += std::exp(dot(d, h, u) - dot(d, h, t));
                sum += std::pow(1 / total, settings.alpha);
                most = std::fmax(most, 1 / total);
              }
              using reduction = qwen3::target_settings::reduction;
              double m = std::pow(sum / count, 1 / settings.alpha);
              if (settings.over_queries == reduction::max) m = most;
              if (settings.over_queries == reduction::sum) {
                m = 0;
                for (std::int64_t d = t + window; d < n; ++d) {
                  double total = 0;
                  for (std::int64_t u = 0; u <= d; ++u) total += std::exp(dot(d, h, u) - dot(d, h, t));
                  m += 1 / total;
                }
              }
              largest = std::fmax(largest, std::log(1e-6 + m));
              mean += std::log(1e-6 + m) / static_cast<double>(group);
            }
            const double want = aggregate == kvpop::group_aggregate::max ? largest : mean;
            const double got = static_cast<double>(s.targets[layer][static_cast<std::size_t>(kv * n + t)]);
            CHECK(std::abs(got - want) <= 1e-3 + 1e-4 * std::abs(want));
          }
        }
      }
    }
  }
}
