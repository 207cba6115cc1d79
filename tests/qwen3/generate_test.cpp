#include "qwen3/generate.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kvpop/core/thread_pool.hpp"
#include "qwen3/eval_data.hpp"  // read_eval_data
#include "run_support.hpp"      // notebook

namespace {

using namespace qwen3_test;
using qwen3::method;

struct notebook_engine {
  qwen3::model network = qwen3::model::open(notebook);
  qwen3::tokenizer words = qwen3::tokenizer::load(notebook);
  qwen3::scorer_set scorers = qwen3::load_scorers(notebook, "", network.shape());

  std::unique_ptr<qwen3::kv_cache> cache(method m, std::int64_t entries, std::int64_t prompt) const {
    return make_kv_cache(network.config(), scorers,
                         {.plan = plan_method(m, entries, {}, scorers, network.shape()), .prompt = prompt});
  }
};

// The last question of a notebook's test line, after everything before it; its record is more than 256 tokens back.
struct question {
  std::vector<std::int32_t> prompt;
  std::string answer;
};

question far_question(const notebook_engine& e, std::size_t line) {
  const auto lines = qwen3::read_eval_data(notebook + "/test.jsonl", e.words, {line + 1});
  const std::span all(lines.at(line).tokens);
  const auto [first, last] = lines[line].answers.back();
  const auto at = static_cast<std::size_t>(first);
  const auto answer = all.subspan(at, static_cast<std::size_t>(last - first));
  return {{all.begin(), all.begin() + first}, e.words.decode(answer)};
}

}  // namespace

TEST_CASE(
    "text comes in pieces, the question is answered from an eighth of the tokens, by KVpop and not by StreamingLLM") {
  const notebook_engine e;
  for (const std::size_t line : {0U, 1U, 2U}) {
    const question asked = far_question(e, line);
    const auto all = static_cast<std::int64_t>(asked.prompt.size());
    REQUIRE(all > 700);
    const auto answer = [&](method m, std::int64_t entries, std::int64_t chunk) {
      const auto cache = e.cache(m, entries, all);
      qwen3::sampler greedy({});
      std::string text;
      const auto made = qwen3::generate({}, e.network, e.words, *cache, asked.prompt, {}, greedy,
                                        {.max_tokens = 2, .chunk = chunk}, [&](std::string_view s) { text += s; });
      CHECK(made.tokens.size() == 2);
      CHECK_FALSE(made.stopped);
      CHECK(made.steps == 1);
      CHECK(cache->seen() == all + 1);
      CHECK(text == e.words.decode(made.tokens));
      return text;
    };
    for (const std::int64_t chunk : {std::int64_t{1}, std::int64_t{50}, all}) {
      CHECK(answer(method::full, all + 2, chunk) == asked.answer + "\n");
      CHECK(answer(method::kvpop, 128, chunk) == asked.answer + "\n");
      CHECK(answer(method::streaming, 128, chunk) != asked.answer + "\n");
    }
  }
}

TEST_CASE("a stop token ends the text and is not part of it") {
  const notebook_engine e;
  const question asked = far_question(e, 0);
  const auto all = static_cast<std::int64_t>(asked.prompt.size());
  const std::vector<std::int32_t> stop{*e.words.find("\n")};
  const auto cache = e.cache(method::full, all + 50, all);
  qwen3::sampler greedy({});
  std::string text;
  const auto made = qwen3::generate({}, e.network, e.words, *cache, asked.prompt, stop, greedy, {.max_tokens = 50},
                                    [&](std::string_view s) { text += s; });
  CHECK(made.stopped);
  CHECK(text == asked.answer);
}

TEST_CASE("no tokens asked for, none made") {
  const notebook_engine e;
  const std::vector<std::int32_t> prompt = e.words.encode("note amber").ids;
  const auto cache = e.cache(method::full, 10, 2);
  qwen3::sampler greedy({});
  const auto made = qwen3::generate({}, e.network, e.words, *cache, prompt, {}, greedy, {.max_tokens = 0}, [](auto) {});
  CHECK(made.tokens.empty());
  CHECK(cache->seen() == 2);
}

TEST_CASE("SnapKV holds its prompt whole and its budget from then on") {
  const notebook_engine e;
  const std::vector<std::int32_t> prompt = far_question(e, 0).prompt;
  const auto all = static_cast<std::int64_t>(prompt.size());
  const auto cache = e.cache(method::snapkv, 64, all);
  qwen3::activations memory;
  e.network.forward({}, prompt, *cache, memory, 0, nullptr);
  CHECK(static_cast<std::int64_t>(cache->held_positions(0, 0).size()) == all);
  cache->end_prompt({});
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const std::vector<std::int64_t> held = cache->held_positions(layer, 1);
    CHECK(held.size() == 64);
    CHECK(held.front() == 0);
    CHECK(held.back() == all - 1);
    CHECK(held[64 - 32] == all - 32);
  }
}

TEST_CASE("sampling with a seed gives the same text again, also with more threads") {
  const notebook_engine e;
  const std::vector<std::int32_t> prompt = e.words.encode("note lilac goat\n").ids;
  kvpop::thread_pool pool(2);
  const auto run = [&](const kvpop::host_context& ctx, std::uint64_t seed) {
    const auto cache = e.cache(method::random, 48, 4);
    qwen3::sampler sample({.temperature = 1, .top_k = 0, .top_p = 1, .seed = seed});
    return qwen3::generate(ctx, e.network, e.words, *cache, prompt, {}, sample, {.max_tokens = 80}, [](auto) {}).tokens;
  };
  const auto first = run({}, 7);
  CHECK(first == run({}, 7));
  CHECK(first == run(pool.context(), 7));
  CHECK(first != run({}, 8));
}
