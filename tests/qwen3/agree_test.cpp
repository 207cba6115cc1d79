#include "qwen3/agree.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "qwen3/eval_data.hpp"  // read_eval_data
#include "run_support.hpp"      // notebook

using namespace qwen3_test;
using qwen3::method;

TEST_CASE("chunked and token by token agree for every method; under replayed death times evictions are the same") {
  const qwen3::model network = qwen3::model::open(notebook);
  const qwen3::scorer_set scorers = qwen3::load_scorers(notebook, "", network.shape());
  const auto lines = qwen3::read_eval_data(notebook + "/test.jsonl", qwen3::tokenizer::load(notebook), {1});
  const auto tokens = std::span(lines[0].tokens).first(400);
  for (const method m : qwen3::all_methods()) {
    for (const auto dtype : {qwen3::cache_dtype::f32, qwen3::cache_dtype::bf16}) {
      const qwen3::method_settings settings{.sinks = {}, .window = {}, .dtype = dtype};
      const std::int64_t entries = m == method::full ? 400 : 64;
      const qwen3::kv_cache_request request{
          .plan = plan_method(m, entries, settings, scorers, network.shape()), .dtype = dtype, .prompt = 150};
      const auto report = qwen3::compare_chunkings({}, network, scorers, request, tokens, 61);
      CAPTURE(std::string(name_of(m)) + " " + name_of(dtype));
      MESSAGE(name_of(m), " ", name_of(dtype), ": ", qwen3::agreement_text(report));
      CHECK(report.tokens == 400);
      CHECK(report.replayed_deaths == 0);
      CHECK(qwen3::holds(report));
      // The charge of the mLSTM leaves it fewer places, so it evicts more; SnapKV evicts from its prompt's end on.
      CHECK(report.evictions == 4 * 2 * (400 - request.plan.limits.capacity()));
      // Priorities that rounding can turn round are few.
      CHECK(report.different_deaths <= report.evictions / 20);
    }
  }
}
