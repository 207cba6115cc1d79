#include "qwen3/plot.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "qwen3/error.hpp"  // load_error

namespace {

using qwen3::eval_report;
using qwen3::eval_result;
using qwen3::method;

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

eval_result result(method name, std::optional<double> compression, std::int64_t budget) {
  eval_result r;
  r.name = name, r.compression = compression, r.budget = budget;
  return r;
}

}  // namespace

TEST_CASE("answers kept over the compression, with their intervals; full is what the others are shares of") {
  eval_report report;
  for (const method m : {method::full, method::streaming, method::kvpop}) {
    for (const double compression : {75.0, 87.5}) {
      eval_result r = result(m, compression, 100);
      r.retention = {0.5, 0.25, 0.75};
      r.kl = {0.125, 0.0625, 0.1875};
      report.results.push_back(r);
    }
  }
  const std::string script = qwen3::plot_script(report);
  CHECK(has(script, "$data0 << EOD\n75 0.5 0.25 0.75\n87.5 0.5 0.25 0.75\nEOD\n"));
  CHECK(has(script, "compression of the KV cache"));
  CHECK(has(script, "set xtics (75, 87.5)"));
  CHECK(has(script, "answers kept"));
  CHECK(has(script, "title 'streaming'"));
  CHECK(has(script, "title 'kvpop'"));
  CHECK_FALSE(has(script, "title 'full'"));
  CHECK_FALSE(has(script, "$data2"));
}

TEST_CASE("without answers the divergence is drawn, by entries from many to few") {
  eval_report report;
  for (const std::int64_t budget : {256, 64}) {
    eval_result r = result(method::h2o, std::nullopt, budget);
    r.kl = {0.125, 0.0625, 0.1875};
    report.results.push_back(r);
  }
  report.results.push_back(result(method::tova, std::nullopt, 256));  // no line was long enough
  const std::string script = qwen3::plot_script(report);
  CHECK(has(script, "$data0 << EOD\n256 0.125 0.0625 0.1875\n64 0.125 0.0625 0.1875\nEOD\n"));
  CHECK(has(script, "KV entries a head"));
  CHECK(has(script, "KL from the full model"));
  CHECK_FALSE(has(script, "tova"));
}

TEST_CASE("nothing but the full model is nothing to draw") {
  eval_report report;
  report.results.push_back(result(method::full, std::nullopt, 100));
  CHECK_THROWS_AS(qwen3::plot_script(report), qwen3::load_error);
}

TEST_CASE("recall by layer: a line a method, under its smallest budget") {
  eval_report report;
  for (const std::int64_t budget : {64, 256}) {
    eval_result r = result(method::kvpop, std::nullopt, budget);
    r.layer_recall = {0.5, budget == 64 ? 0.25 : 0.75};
    report.results.push_back(r);
  }
  report.results.push_back(result(method::full, std::nullopt, 1000));
  report.results.back().layer_recall = {1, 1};
  const std::string script = qwen3::layer_plot_script(report);
  CHECK(has(script, "$data0 << EOD\n0 0.5\n1 0.25\nEOD\n"));
  CHECK(has(script, "title 'kvpop, 64 entries'"));
  CHECK_FALSE(has(script, "$data1"));
  report.results.erase(report.results.begin(), report.results.end() - 1);
  CHECK_THROWS_AS(qwen3::layer_plot_script(report), qwen3::load_error);
}
