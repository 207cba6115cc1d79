#include "qwen3/train_batch.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "qwen3/notebook_data.hpp"  // make_notebook
#include "qwen3/tokenizer.hpp"      // tokenizer
#include "run_support.hpp"          // notebook

namespace {

using namespace qwen3_test;
using qwen3::packed_row;

packed_row row_of(std::int64_t first, std::int64_t second) {
  static const qwen3::tokenizer words = qwen3::tokenizer::load(notebook);
  packed_row row;
  for (const std::int64_t n : {first, second}) {
    if (n == 0) continue;
    auto ids = words.encode(qwen3::make_notebook({.tokens = n}, 8, static_cast<std::uint64_t>(n)).text).ids;
    row.starts.push_back(row.size());
    row.tokens.insert(row.tokens.end(), ids.begin(), ids.begin() + n);
  }
  return row;
}

struct setting {
  qwen3::model network = qwen3::model::open(notebook);
  qwen3::scorer_plan plan;
  qwen3::loss_settings loss;

  explicit setting(kvpop::scorer_kind kind) {
    plan = {.kind = kind,
            .layers = 4,
            .kv_heads = 2,
            .head_dim = 64,
            .hidden = 6,
            .dk = 4,
            .dv = 4,
            .sinks = 2,
            .window = 8,
            .delay = 8};
    loss.least_topk = 5, loss.most_topk = 20;
  }
};

}  // namespace

TEST_CASE("the gradient of a row is the slope of its loss, for every scorer and loss") {
  const packed_row row = row_of(70, 50);
  for (const auto kind : {kvpop::scorer_kind::mlp, kvpop::scorer_kind::mlstm}) {
    for (const auto loss : {qwen3::score_loss::boundary, qwen3::score_loss::regression, qwen3::score_loss::pairs}) {
      CAPTURE(kvpop::name_of(kind));
      CAPTURE(qwen3::name_of(loss));
      setting s(kind);
      s.loss.loss = loss;
      const kvpop::host_context ctx;
      qwen3::train_batch batch(ctx, s.network, s.plan, s.loss);
      qwen3::trainable_scorer scorer(s.plan, 3);
      std::vector<float> gradient(scorer.values().size(), 0.0F);
      const auto metrics = batch.learn(row, scorer, 5, 1.0F, gradient);
      CHECK(metrics.heads == 4 * 2 * 2);  // layers, heads, documents
      std::mt19937 random(4);
      std::vector<float> direction(gradient.size());
      double slope = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const bool is_g = static_cast<std::int64_t>(i) % scorer.stride() == s.plan.block();
        // The teacher decays with the same gamma, held constant: a difference in g would move the comparisons too.
        direction[i] = is_g ? 0.0F : static_cast<float>(random() % 2001U) / 1000 - 1;
        slope += static_cast<double>(direction[i]) * static_cast<double>(gradient[i]);
      }
      const auto value = [&](float step) {
        qwen3::trainable_scorer moved = scorer;
        for (std::size_t i = 0; i < direction.size(); ++i) moved.values()[i] += step * direction[i];
        return batch.measure(row, moved, 5).mean_loss();
      };
      constexpr float step = 1e-3F;
      const double difference = (value(step) - value(-step)) / (2 * static_cast<double>(step));
      CAPTURE(slope);
      CAPTURE(difference);
      CHECK(std::abs(slope - difference) <= 0.02 * std::abs(difference) + 1e-3);
    }
  }
}

TEST_CASE("threads change no bit; other draws choose other budgets; a document too short teaches nothing") {
  setting s(kvpop::scorer_kind::mlstm);
  const packed_row row = row_of(70, 50);
  const qwen3::trainable_scorer scorer(s.plan, 3);
  const auto learn = [&](const kvpop::host_context& ctx, std::uint64_t draw) {
    qwen3::train_batch batch(ctx, s.network, s.plan, s.loss);
    std::vector<float> gradient(scorer.values().size(), 0.0F);
    batch.learn(row, scorer, draw, 0.5F, gradient);
    return gradient;
  };
  kvpop::thread_pool pool(3);
  const auto one = learn({}, 5);
  CHECK(learn(pool.context(), 5) == one);
  CHECK(learn({}, 6) != one);
  const kvpop::host_context ctx;
  qwen3::train_batch batch(ctx, s.network, s.plan, s.loss);
  CHECK(batch.measure(row_of(12, 0), scorer, 1).heads == 0);
}

TEST_CASE("targets by the student's log-sum-exp: the dense ones where it holds everything, else less is seen") {
  const kvpop::host_context ctx;
  const packed_row both = row_of(70, 50);
  const auto learn = [&](qwen3::lse_source lse, std::int64_t topk, const packed_row& row, std::vector<float>& gradient,
                         const kvpop::host_context& c) {
    setting s(kvpop::scorer_kind::mlstm);
    s.loss.lse = lse;
    s.loss.least_topk = s.loss.most_topk = topk;
    qwen3::train_batch batch(c, s.network, s.plan, s.loss);
    const qwen3::trainable_scorer scorer(s.plan, 3);
    gradient.assign(scorer.values().size(), 0.0F);
    return batch.learn(row, scorer, 5, 1.0F, gradient);
  };
  using qwen3::lse_source;
  std::vector<float> dense, student, threaded;
  // 70 - 2 sinks - 8 window = 60 places: nobody leaves.
  CHECK(learn(lse_source::dense, 60, both, dense, ctx).lse_queries == 0);
  CHECK(learn(lse_source::student, 60, both, student, ctx).mean_lse_gap() == 0.0);
  CHECK(student == dense);

  learn(lse_source::dense, 5, both, dense, ctx);
  const auto metrics = learn(lse_source::student, 5, both, student, ctx);
  CHECK(metrics.lse_queries == 4 * 120 * 4);  // layers, tokens, query heads
  CHECK(metrics.mean_lse_gap() > 0.01);
  CHECK(student != dense);
  kvpop::thread_pool pool(3);
  learn(lse_source::student, 5, both, threaded, pool.context());
  CHECK(threaded == student);

  // Documents packed in a row lose what they lose alone.
  double alone = 0;
  for (const packed_row& row : {row_of(70, 0), row_of(0, 50)})
    alone += learn(lse_source::student, 5, row, student, ctx).lse_gap;
  CHECK(metrics.lse_gap == doctest::Approx(alone).epsilon(1e-4));
}

TEST_CASE("metrics: what they say of a scorer that is the target itself, and how they add up") {
  qwen3::batch_metrics a, b;
  a.loss = 3, a.heads = 2, a.comparisons = 10, a.right = 9, a.recall = 1, a.layer_recall = {1, 0};
  b.loss = 1, b.heads = 2, b.comparisons = 10, b.right = 5, b.recall = 2, b.layer_recall = {0, 2};
  a.add(b);
  CHECK(a.mean_loss() == 1.0);
  CHECK(a.accuracy() == doctest::Approx(0.7));
  CHECK(a.mean_recall() == doctest::Approx(0.75));
  CHECK(a.layer_recall == std::vector<double>{1, 2});
  CHECK(qwen3::batch_metrics{}.mean_loss() == 0.0);
}
