// The real model of `./dev fetch smollm2` against what transformers computes with the same weights in f32.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "files.hpp"  // read_file
#include "kvpop/core/thread_pool.hpp"
#include "qwen3/distribution.hpp"  // first_choice
#include "qwen3/tokenizer.hpp"
#include "run_support.hpp"   // all_logits, keep_all
#include "support/skip.hpp"  // skip

namespace {

using namespace qwen3_test;

const std::string golden = KVPOP_TEST_DATA "/smollm2/";
constexpr double tolerance = 2e-3;  // of the largest logit: bf16 weights, f32 sums in another order

std::string fetched_model() {
  const auto variable = [](const char* name) { return std::getenv(name) == nullptr ? "" : std::getenv(name); };
  std::string cache = variable("KVPOP_CACHE");
  if (cache.empty()) {
    cache = variable("XDG_CACHE_HOME");
    cache = (cache.empty() ? std::string(variable("HOME")) + "/.cache" : cache) + "/kvpop";
  }
  return cache + "/smollm2";
}

double log_sum_exp(std::span<const float> row) {
  double largest = -INFINITY, sum = 0;
  for (const float x : row) largest = std::max(largest, static_cast<double>(x));
  for (const float x : row) sum += std::exp(static_cast<double>(x) - largest);
  return largest + std::log(sum);
}

// Rows of logits [S, vocab] against those of text i.
void check_logits(const std::vector<float>& logits, const qwen3::safetensors_file& expected, const std::string& i) {
  const auto vocabulary = static_cast<std::size_t>(expected.at("logits." + i).shape[1]);
  const auto row = [&](std::size_t t) { return std::span(logits).subspan(t * vocabulary, vocabulary); };
  const auto rows = expected.at("rows." + i).values<std::int32_t>();
  const auto wanted = expected.at("logits." + i).values<float>();
  double largest = 0;
  for (const float x : wanted) largest = std::max(largest, std::abs(static_cast<double>(x)));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto expected_row = wanted.subspan(r * vocabulary, vocabulary);
    CHECK(relative_error(row(static_cast<std::size_t>(rows[r])), expected_row) < tolerance);
  }
  const auto choices = expected.at("first_choice." + i).values<std::int32_t>();
  const auto gaps = expected.at("gap." + i).values<float>();
  const auto sums = expected.at("lse." + i).values<float>();
  int decided = 0;
  for (std::size_t t = 0; t < choices.size(); ++t) {
    CHECK(std::abs(log_sum_exp(row(t)) - static_cast<double>(sums[t])) < tolerance * largest);
    if (static_cast<double>(gaps[t]) <= tolerance * largest) continue;
    CHECK(qwen3::first_choice(row(t)) == choices[t]);
    ++decided;
  }
  CHECK(decided > static_cast<int>(choices.size()) / 2);
}

}  // namespace

TEST_CASE("SmolLM2: ids, logits and first choices are transformers'") {
  const std::string directory = fetched_model();
  if (!std::filesystem::exists(directory + "/config.json")) {
    kvpop_test::skip(("SmolLM2 is not at " + directory + ": ./dev fetch smollm2").c_str());
    return;
  }
  const qwen3::model network = qwen3::model::open(directory);
  const qwen3::tokenizer words = qwen3::tokenizer::load(directory);
  const auto expected = qwen3::safetensors_file::open(golden + "expected.safetensors");
  const auto texts = nlohmann::json::parse(read_file(golden + "expected.json"));
  REQUIRE(texts.size() == 3);
  kvpop::thread_pool pool(2);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(i);
    const auto ids = texts[i]["ids"].get<std::vector<std::int32_t>>();
    CHECK(words.encode(texts[i]["text"].get<std::string>()).ids == ids);
    const auto tokens = static_cast<std::int64_t>(ids.size());
    const auto cache = make_kv_cache(network.config(), {}, {.plan = keep_all(tokens)});
    std::vector<float> logits;
    qwen3::run_chunks(pool.context(), network, ids, *cache, 64, tokens,
                      [&](std::span<const float> part) { logits.insert(logits.end(), part.begin(), part.end()); });
    check_logits(logits, expected, std::to_string(i));
  }
}
