#include "qwen3/eval.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "files.hpp"  // message_of
#include "kvpop/core/thread_pool.hpp"
#include "qwen3/error.hpp"        // usage_error
#include "qwen3/eval_output.hpp"  // eval_json, eval_table
#include "run_support.hpp"        // notebook

namespace {

using namespace qwen3_test;
using qwen3::method;

struct notebook_data {
  qwen3::model network = qwen3::model::open(notebook);
  qwen3::scorer_set scorers = qwen3::load_scorers(notebook, "", network.shape());
  qwen3::method_settings settings;
  std::vector<qwen3::eval_line> lines;

  explicit notebook_data(std::size_t limit)
      : lines(qwen3::read_eval_data(notebook + "/test.jsonl", qwen3::tokenizer::load(notebook), {limit})) {}

  qwen3::eval_report run(const qwen3::eval_request& request) const {
    return qwen3::evaluate({}, network, scorers, settings, lines, request);
  }
};

const qwen3::eval_result& result_of(const qwen3::eval_report& report, method m, std::int64_t budget) {
  for (const qwen3::eval_result& r : report.results)
    if (r.name == m && (m == method::full || r.budget == budget)) return r;
  throw std::runtime_error("no such result");
}

}  // namespace

TEST_CASE("the notebook: the full model answers, KVpop keeps its answers, StreamingLLM loses them") {
  const notebook_data data(4);
  const auto report = data.run(
      {.methods = {method::full, method::streaming, method::random, method::kvpop_mlp, method::kvpop, method::oracle},
       .budgets = {{256, false}, {128, false}, {64, false}}});
  MESSAGE(qwen3::eval_table(report));
  CHECK(report.lines == 4);
  CHECK(report.answers >= 40);
  CHECK(report.full_correct == report.answers);  // the model's README: right always
  CHECK(report.results.size() == 1 + 5 * 3);
  const auto right = [&](method m, std::int64_t budget) { return *result_of(report, m, budget).accuracy; };
  CHECK(right(method::full, 0) == 1);
  CHECK(right(method::kvpop, 256) == 1);
  CHECK(right(method::kvpop, 128) >= 0.97);
  CHECK(right(method::kvpop, 64) >= 0.7);
  CHECK(right(method::kvpop_mlp, 128) >= 0.97);
  CHECK(right(method::kvpop_mlp, 64) >= 0.7);
  CHECK(right(method::oracle, 64) == 1);  // docs/method.md section 3: rms
  CHECK(right(method::streaming, 256) <= 0.1);
  // The oracle holds what the target asks for, the full cache everything; a trained scorer comes between it and chance.
  CHECK(*result_of(report, method::oracle, 64).recall == 1);
  CHECK(*result_of(report, method::full, 0).recall == 1);
  CHECK(*result_of(report, method::kvpop, 64).recall > *result_of(report, method::random, 64).recall + 0.1);
  CHECK(result_of(report, method::oracle, 128).layer_recall.size() == 4);
  CHECK(result_of(report, method::full, 0).loss->value < result_of(report, method::streaming, 64).loss->value);
  CHECK(right(method::random, 64) <= 0.35);
  for (const qwen3::eval_result& r : report.results) {
    CAPTURE(qwen3::name_of(r.name));
    REQUIRE(r.kl.has_value());
    CHECK(r.retention->low <= r.retention->value);
    CHECK(r.retention->value <= r.retention->high);
    CHECK(r.tokens_per_second > 0);
    CHECK(*r.agreement <= 1);
  }
  // Less room, less like the full model; KVpop nearer to it than the others.
  CHECK(result_of(report, method::full, 0).kl->value == 0);
  CHECK(result_of(report, method::kvpop, 256).kl->value < result_of(report, method::kvpop, 64).kl->value);
  CHECK(result_of(report, method::kvpop, 64).kl->value < result_of(report, method::random, 64).kl->value);
  CHECK(result_of(report, method::kvpop, 256).kl->value < 0.02);
}

namespace {

// log softmax of one row in double.
std::vector<double> log_probabilities(std::span<const float> logits) {
  double most = logits[0], sum = 0;
  for (const float x : logits) most = std::max(most, static_cast<double>(x));
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - most);
  std::vector<double> result;
  for (const float x : logits) result.push_back(static_cast<double>(x) - most - std::log(sum));
  return result;
}

std::size_t choice_of(std::span<const float> row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

}  // namespace

TEST_CASE("every figure is what its definition makes of the logits: positions from the budget on, answers all right") {
  const notebook_data data(2);
  constexpr std::int64_t budget = 96;
  const auto report =
      data.run({.methods = {method::full, method::random, method::kvpop}, .budgets = {{budget, false}}});
  const auto vocabulary = static_cast<std::size_t>(data.network.config().vocabulary);
  for (const method m : {method::full, method::random, method::kvpop}) {
    CAPTURE(qwen3::name_of(m));
    double kl = 0, loss = 0, compared = 0, agreed = 0, correct = 0, full_correct = 0, predicted = 0, full_loss = 0;
    for (const qwen3::eval_line& line : data.lines) {
      const auto all = static_cast<std::int64_t>(line.tokens.size());
      const auto logits_of = [&](method name) {
        const auto plan = qwen3::plan_method(name, name == method::full ? all : budget, data.settings, data.scorers,
                                             data.network.shape());
        const auto cache = qwen3::make_kv_cache(data.network.config(), data.scorers,
                                                {.plan = plan, .seed = data.settings.seed, .prompt = line.prompt()});
        std::vector<float> logits;
        qwen3::run_chunks({}, data.network, line.tokens, *cache, 128, line.prompt(),
                          [&](std::span<const float> part) { logits.insert(logits.end(), part.begin(), part.end()); });
        return logits;
      };
      const std::vector<float> reference = logits_of(method::full), own = logits_of(m);
      std::vector<char> hit(line.tokens.size()), full_hit(line.tokens.size());
      for (std::size_t t = 0; t < line.tokens.size(); ++t) {
        const auto p_row = std::span(reference).subspan(t * vocabulary, vocabulary);
        const auto q_row = std::span(own).subspan(t * vocabulary, vocabulary);
        if (t + 1 < line.tokens.size()) {
          hit[t + 1] = choice_of(q_row) == static_cast<std::size_t>(line.tokens[t + 1]);
          full_hit[t + 1] = choice_of(p_row) == static_cast<std::size_t>(line.tokens[t + 1]);
        }
        if (m != method::full && t < budget) continue;
        const std::vector<double> p = log_probabilities(p_row), q = log_probabilities(q_row);
        for (std::size_t v = 0; v < vocabulary; ++v) kl += std::exp(p[v]) * (p[v] - q[v]);
        compared += 1;
        agreed += choice_of(p_row) == choice_of(q_row);
        if (t + 1 == line.tokens.size()) continue;  // nothing comes after the last
        loss -= q[static_cast<std::size_t>(line.tokens[t + 1])];
        full_loss -= p[static_cast<std::size_t>(line.tokens[t + 1])];
        predicted += 1;
      }
      for (const qwen3::token_range& answer : line.answers) {
        const auto right = [&](const std::vector<char>& hits) {
          return std::all_of(hits.begin() + answer.first, hits.begin() + answer.last, [](char h) { return h != 0; });
        };
        correct += right(hit);
        full_correct += right(full_hit);
      }
    }
    const qwen3::eval_result& r = result_of(report, m, budget);
    CHECK(static_cast<double>(r.correct) == correct);
    CHECK(*r.accuracy == doctest::Approx(correct / static_cast<double>(report.answers)));
    CHECK(r.retention->value == doctest::Approx(correct / full_correct));
    CHECK(*r.agreement == doctest::Approx(agreed / compared));
    CHECK(std::abs(r.kl->value - kl / compared) < 1e-5 * (1 + kl / compared));
    CHECK(r.loss->value == doctest::Approx(loss / predicted).epsilon(1e-5));
    CHECK(std::abs(r.excess->value - (loss - full_loss) / predicted) < 1e-5);
  }
}

TEST_CASE("bytes held: the budget, the scorer's memory within it; SnapKV's peak is its prompt") {
  const notebook_data data(1);
  const auto report = data.run({.methods = {method::full, method::streaming, method::kvpop, method::tova, method::h2o,
                                            method::snapkv, method::key_norm},
                                .budgets = {{128, false}}});
  constexpr std::int64_t entry = 2 * 64 * 4, heads = 4 * 2;
  CHECK(result_of(report, method::full, 0).kv_bytes == report.tokens * entry * heads);
  CHECK(result_of(report, method::streaming, 128).kv_bytes == 128 * entry * heads);
  CHECK(result_of(report, method::tova, 128).kv_bytes == 128 * entry * heads);
  CHECK(result_of(report, method::h2o, 128).kv_bytes == 128 * entry * heads);
  CHECK(result_of(report, method::key_norm, 128).kv_bytes == 128 * entry * heads);
  CHECK(result_of(report, method::kvpop, 128).kv_bytes == (125 * entry + 273 * 4) * heads);
  CHECK(result_of(report, method::kvpop, 128).topk == 89);
  CHECK(result_of(report, method::snapkv, 128).kv_bytes > data.lines[0].prompt() * entry * heads);
}

TEST_CASE("chunks of any size and any number of threads give the same answers") {
  const notebook_data data(1);
  kvpop::thread_pool pool(3);
  const qwen3::eval_request request{.methods = {method::full, method::kvpop, method::h2o, method::snapkv},
                                    .budgets = {{88, true}}};
  const auto first = data.run(request);
  qwen3::eval_request small = request;
  small.chunk = 17;
  const auto second = data.run(small);
  const auto third = qwen3::evaluate(pool.context(), data.network, data.scorers, data.settings, data.lines, request);
  for (std::size_t i = 0; i < first.results.size(); ++i) {
    CAPTURE(qwen3::name_of(first.results[i].name));
    CHECK(first.results[i].correct == third.results[i].correct);
    CHECK(first.results[i].kl->value == third.results[i].kl->value);
    CHECK(std::abs(first.results[i].correct - second.results[i].correct) <= 1);
    CHECK(first.results[i].kl->value == doctest::Approx(second.results[i].kl->value).epsilon(0.1).scale(1e-4));
  }
  CHECK(first.results[1].budget == (first.tokens + 4) / 8);
}

TEST_CASE("a budget that is too small is refused before anything runs") {
  const notebook_data data(1);
  CHECK(message_of<qwen3::usage_error>([&] {
          data.run({.methods = {method::kvpop}, .budgets = {{30, false}}});
        }).find("a budget of 30 entries a head is too small") != std::string::npos);
  CHECK(message_of<qwen3::usage_error>([&] {
          data.run({.methods = {method::kvpop}, .budgets = {{99, true}}});
        }).find("line 1 with ") == 0);
}

TEST_CASE("JSON in the shape that is promised, null where there is nothing to tell") {
  qwen3::eval_report report{
      .model = "m", .data = "d", .lines = 2, .tokens = 30, .answers = 0, .full_correct = 0, .results = {}};
  qwen3::eval_result r;
  r.name = method::key_norm;
  r.budget = 12;
  r.topk = 3;
  report.results.push_back(r);
  r.answers = 4;
  r.correct = 3;
  r.accuracy = 0.75;
  r.retention = qwen3::ratio_estimate{0.8, 0.7, 0.9};
  r.kl = qwen3::ratio_estimate{0.5, 0.4, 0.75};
  r.loss = qwen3::ratio_estimate{2.5, 2, 3};
  r.excess = qwen3::ratio_estimate{0.5, -0.5, 1.5};
  r.recall = 0.25;
  r.layer_recall = {0.5, 0};
  r.agreement = 0.25;
  r.kv_bytes = 1024;
  r.tokens_per_second = 10;
  report.results.push_back(r);
  const auto json = nlohmann::ordered_json::parse(qwen3::eval_json(report));
  CHECK(
      json.dump() ==
      R"({"model":"m","data":"d","lines":2,"tokens":30,"results":[)"
      R"({"method":"keynorm","budget":12,"topk":3,"answers":0,"correct":0,"accuracy":null,"retention":null,)"
      R"("retention_low":null,"retention_high":null,"kl":null,"agreement":null,"kv_bytes":0,"tokens_per_second":0.0,)"
      R"("kl_low":null,"kl_high":null,"loss":null,"excess":null,"excess_low":null,"excess_high":null,"recall":null,"layer_recall":[]},)"
      R"({"method":"keynorm","budget":12,"topk":3,"answers":4,"correct":3,"accuracy":0.75,"retention":0.8,)"
      R"("retention_low":0.7,"retention_high":0.9,"kl":0.5,"agreement":0.25,"kv_bytes":1024,)"
      R"("tokens_per_second":10.0,"kl_low":0.4,"kl_high":0.75,"loss":2.5,"excess":0.5,"excess_low":-0.5,"excess_high":1.5,"recall":0.25,)"
      R"("layer_recall":[0.5,0.0]}]})");
  const std::string table = qwen3::eval_table(report);
  CHECK(table.find("keynorm") != std::string::npos);
  CHECK(table.find("0.800 [0.700, 0.900]") != std::string::npos);
}
