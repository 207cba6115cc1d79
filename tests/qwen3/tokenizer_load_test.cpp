#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "qwen3/error.hpp"         // load_error, input_error
#include "qwen3/files.hpp"         // temporary_directory, write_file, read_file, message_of
#include "qwen3/texts.hpp"         // read_test_json
#include "qwen3/tokenizer.hpp"     // tokenizer
#include "support/generators.hpp"  // generator, draws

using kvpop_test::draws;
using kvpop_test::generator;
using nlohmann::json;
using qwen3::encoding;
using qwen3::load_error;
using qwen3::tokenizer;
using namespace qwen3_test;

namespace {

using id_list = std::vector<std::int32_t>;

// A description of features.json: what the tokenizers library wrote.
json feature(std::string_view name) {
  static const json all = read_test_json("features.json");
  for (const json& one : all)
    if (one["name"] == name) return one["tokenizer"];
  throw std::runtime_error("features.json has no " + std::string(name));
}

tokenizer load_json(const json& description, const json& config = nullptr, const json& generation = nullptr) {
  const temporary_directory directory;
  write_file(directory / "tokenizer.json", description.dump());
  if (!config.is_null()) write_file(directory / "tokenizer_config.json", config.dump());
  if (!generation.is_null()) write_file(directory / "generation_config.json", generation.dump());
  return tokenizer::load(directory.path());
}

// What is said of a description, from the name of the file on.
std::string refusal(const json& description, const json& config = nullptr, const json& generation = nullptr) {
  const std::string message = message_of<load_error>([&] { load_json(description, config, generation); });
  const auto name = message.rfind('/', message.find(".json"));
  return name == std::string::npos ? message : message.substr(name + 1);
}

id_list ids_of(const tokenizer& t, std::string_view text) { return t.encode(text).ids; }

}  // namespace

TEST_CASE("tokenizer: each feature gives the ids of the tokenizers library") {
  for (const json& one : read_test_json("features.json")) {
    const tokenizer t = load_json(one["tokenizer"]);
    CAPTURE(one["name"].get<std::string>());
    for (const json& row : one["rows"]) {
      const auto text = row["text"].get<std::string>();
      CAPTURE(text);
      const encoding e = t.encode(text);
      CHECK(e.ids == row["ids"].get<id_list>());
      REQUIRE((e.normalized || e.bytes.size() == e.ids.size()));
      std::size_t next = 0;
      for (const qwen3::byte_range& range : e.bytes) {
        REQUIRE(range.begin == next);
        next = range.end;
      }
      REQUIRE((e.normalized || next == text.size()));
    }
  }
}

TEST_CASE("tokenizer: a space put before the text, and tokens of a template, stand for no byte of it") {
  const tokenizer spaced = load_json(feature("gpt2, a space before"));
  const encoding e = spaced.encode("the cat");
  REQUIRE(e.ids == ids_of(spaced, " the cat"));
  CHECK(spaced.decode(e.ids) == " the cat");
  CHECK(e.bytes.front().begin == 0);
  CHECK(e.bytes.front().end == spaced.bytes_of(e.ids.front()).size() - 1);
  CHECK(e.bytes.back().end == 7);

  const tokenizer framed = load_json(feature("llama3"));
  const encoding f = framed.encode("the cat");
  CHECK(framed.bytes_of(f.ids.front()) == "<|begin|>");
  CHECK(framed.bytes_of(f.ids.back()) == "<|end|>");
  CHECK(f.bytes.front().end == 0);
  CHECK(f.bytes.back().begin == 7);
  CHECK(f.bytes.back().end == 7);
  CHECK(framed.encode("").ids.size() == 2);
}

TEST_CASE("tokenizer: bytes without a token are left out and counted") {
  json d = feature("gpt2");
  json& vocab = d["model"]["vocab"];
  d["model"]["merges"] = json::array({"t h"});
  vocab.erase("x");
  const tokenizer t = load_json(d);
  const encoding e = t.encode("axb txh");
  CHECK(t.decode(e.ids) == "ab th");
  CHECK(e.dropped == 2);
  CHECK(e.bytes[0].end == 1);
  CHECK(e.bytes[1].begin == 2);
  CHECK(e.bytes.back().begin == 4);  // t and h are neighbours now, and merge
  CHECK(e.bytes.back().end == 7);
}

TEST_CASE("tokenizer: what is not known is refused by name") {
  const json good = feature("llama3");
  struct change {
    std::function<void(json&)> act;
    std::string message;
  };
  const std::string file = "tokenizer.json: ";
  const std::vector<change> changes = {
      {[](json& d) { d["model"]["type"] = "Unigram"; }, "model.type is \"Unigram\"; only \"BPE\" is known here"},
      {[](json& d) { d["model"]["dropout"] = 0.5; }, "model.dropout is 0.5; only null and 0 are known here"},
      {[](json& d) { d["model"]["byte_fallback"] = true; }, "model.byte_fallback is true, which is not known here"},
      {[](json& d) { d["model"]["end_of_word_suffix"] = "</w>"; },
       "model.end_of_word_suffix is \"</w>\", which is not known here"},
      {[](json& d) { d["model"]["novelty"] = 1; }, "model has a member \"novelty\", which is not known here"},
      {[](json& d) { d["model"].erase("vocab"); }, "model.vocab is null; it must be an object"},
      {[](json& d) { d["model"]["vocab"] = json::object(); }, "model.merges[0] names "},
      {[](json& d) { d["model"].erase("merges"); }, "model.merges is null; it must be an array"},
      {[](json& d) { d["model"]["merges"][3] = "ab"; }, "model.merges[3] is not a merge: two tokens in one string"},
      {[](json& d) { d["model"]["merges"][3] = "a b c"; }, "model.merges[3] is not a merge: two tokens in one string"},
      {[](json& d) {
         d["model"]["merges"][3] = {"a", 7};
       },
       "model.merges[3] is not a merge: two tokens in one string"},
      {[](json& d) { d["model"]["merges"][3] = "a nosuch"; },
       "model.merges[3] names \"nosuch\", which is not a byte-level token"},
      {[](json& d) { d["model"]["merges"][3] = "Q Z"; },
       "model.merges[3] names \"QZ\", which is not a byte-level token"},
      {[](json& d) { d["model"]["vocab"]["a"] = -1; }, "model.vocab.a is -1; it must be a token id"},
      {[](json& d) { d["model"]["vocab"]["a"] = 1.5; }, "model.vocab.a is 1.5; it must be a token id"},
      {[](json& d) { d["model"]["vocab"]["a"] = 4294967296; }, "model.vocab.a is 4294967296; it must be a token id"},
      {[](json& d) { d["model"]["vocab"]["a"] = 2147483647; }, "model.vocab has id 2147483647 but only "},
      {[](json& d) { d["model"]["vocab"]["a"] = d["model"]["vocab"]["b"]; }, "model.vocab gives id "},
      {[](json& d) { d["model"]["unk_token"] = "u", d["model"]["vocab"].erase("x"); },
       "model.unk_token is needed, since the vocabulary lacks single bytes"},
      {[](json& d) { d["version"] = "2.0"; }, "version is \"2.0\"; only \"1.0\" is known here"},
      {[](json& d) {
         d["truncation"] = {{"max_length", 5}};
       },
       "truncation is set, which is not known here"},
      {[](json& d) {
         d["padding"] = {{"pad_id", 0}};
       },
       "padding is set, which is not known here"},
      {[](json& d) { d["extra"] = 1; }, "has a member \"extra\", which is not known here"},
      {[](json& d) { d["model"] = 5; }, "model is 5; it must be an object"},
      {[](json& d) {
         d["normalizer"] = {{"type", "NFKC"}};
       },
       "normalizer is of type \"NFKC\"; only \"NFC\" and \"Sequence\""},
      {[](json& d) {
         d["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}}}};
       },
       "normalizer.normalizers[0] is of type \"Lowercase\""},
      {[](json& d) { d["normalizer"] = "NFC"; }, "normalizer is \"NFC\"; it must be an object"},
      {[](json& d) { d["pre_tokenizer"] = nullptr; }, "pre_tokenizer has no ByteLevel step"},
      {[](json& d) {
         d["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       "pre_tokenizer is of type \"Metaspace\"; only "},
      {[](json& d) {
         d["pre_tokenizer"]["pretokenizers"].push_back({{"type", "Punctuation"}});
       },
       "pre_tokenizer.pretokenizers[2] has a step \"Punctuation\" after ByteLevel"},
      {[](json& d) { d["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; },
       "pre_tokenizer.pretokenizers[0].behavior is \"Removed\"; only \"Isolated\" is known here"},
      {[](json& d) {
         d["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", "\\w+"}};
       },
       "pre_tokenizer.pretokenizers[0].pattern.Regex pattern \"\\w+\" uses \"\\w\" at byte 0, which is not known here"},
      {[](json& d) {
         d["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", "(?<=a+)b"}};
       },
       "PCRE2 cannot compile"},
      {[](json& d) {
         d["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", ""}};
       },
       "pre_tokenizer.pretokenizers[0].pattern.String is empty"},
      {[](json& d) { d["pre_tokenizer"]["pretokenizers"][0]["pattern"] = json::object(); }, "must have one of"},
      {[](json& d) { d["decoder"] = nullptr; }, "decoder is missing; only \"ByteLevel\" is known here"},
      {[](json& d) {
         d["decoder"] = {{"type", "Metaspace"}};
       },
       "decoder is of type \"Metaspace\""},
      {[](json& d) {
         d["post_processor"] = {{"type", "BertProcessing"}};
       },
       "post_processor is of type \"BertProcessing\""},
      {[](json& d) { d["post_processor"]["processors"][1]["special_tokens"] = json::object(); },
       "post_processor.processors[1].special_tokens.<|begin|> is null; it must be an object"},
      {[](json& d) { d["post_processor"]["processors"][1]["special_tokens"]["<|begin|>"]["ids"] = {5000}; },
       "post_processor.processors[1].special_tokens.<|begin|>.ids[0] is an id that no token has"},
      {[](json& d) { d["post_processor"]["processors"][1]["single"] = json::array(); }, "has no place for the text"},
      {[](json& d) { d["added_tokens"][0]["single_word"] = true; }, "added_tokens[0] asks for single_word"},
      {[](json& d) { d["added_tokens"][0]["content"] = ""; }, "added_tokens[0] is an added token without text"},
      {[](json& d) { d["added_tokens"][0]["id"] = 3; }, "model.vocab or added_tokens has another token with id 3"},
      {[](json& d) { d["added_tokens"][1]["content"] = d["added_tokens"][0]["content"]; }, "added_tokens"},
      {[](json& d) { d["added_tokens"][0]["content"] = "a"; }, "model.vocab gives id "},
      {[](json& d) { d["added_tokens"][0]["lstrip"] = 1; }, "added_tokens[0].lstrip is 1; it must be true or false"},
  };
  load_json(good);
  for (const change& one : changes) {
    json changed = good;
    one.act(changed);
    const std::string message = refusal(changed);
    CAPTURE(message);
    CHECK(message.starts_with(file));
    CHECK(message.find(one.message) != std::string::npos);
  }
}

TEST_CASE("tokenizer: the configuration files give the tokens that end a text") {
  const json good = feature("llama3");
  const auto stops = [&](const json& config, const json& generation) {
    const tokenizer t = load_json(good, config, generation);
    return id_list(t.stop_ids().begin(), t.stop_ids().end());
  };
  const std::int32_t end = *load_json(good).find("<|end|>");
  CHECK(stops(nullptr, nullptr) == id_list{});
  CHECK(stops({{"eos_token", "<|end|>"}}, nullptr) == id_list{end});
  CHECK(stops({{"eos_token", {{"content", "<|end|>"}}}}, {{"eos_token_id", {7, end, 5}}}) == id_list{5, 7, end});
  CHECK(stops({{"eos_token", nullptr}, {"other", 1}}, {{"eos_token_id", 9}}) == id_list{9});
  CHECK(stops({{"add_bos_token", true}, {"add_eos_token", true}}, nullptr) == id_list{});

  CHECK(refusal(good, {{"eos_token", "</s>"}}) ==
        "tokenizer_config.json: eos_token is \"</s>\", which tokenizer.json does not have");
  CHECK(refusal(feature("gpt2"), {{"add_bos_token", true}}) ==
        "tokenizer_config.json: add_bos_token is true, but the post_processor of tokenizer.json adds no such token");
  CHECK(refusal(good, nullptr, {{"eos_token_id", {1, "x"}}}) ==
        "generation_config.json: eos_token_id[1] is \"x\"; it must be a token id, a whole number from 0 to 2147483647");
}

TEST_CASE("tokenizer: a directory without the file, and a file that is a directory, are named") {
  const temporary_directory directory;
  CHECK(message_of<load_error>([&] { tokenizer::load(directory.path()); }).starts_with(directory / "tokenizer.json"));
  std::filesystem::create_directory(directory / "tokenizer.json");
  CHECK(message_of<load_error>([&] { tokenizer::load(directory.path()); }).starts_with(directory / "tokenizer.json"));
}

TEST_CASE("tokenizer: a file that was cut anywhere is refused") {
  const std::string whole = read_file(KVPOP_MODELS "/notebook/tokenizer.json");
  const std::size_t end = whole.find_last_of('}');
  const temporary_directory directory;
  generator random(4);
  for (int i = 0; i < draws(2000); ++i) {
    const auto size = static_cast<std::size_t>(i < 20 ? i : random.integer(20, static_cast<std::int64_t>(end)));
    write_file(directory / "tokenizer.json", whole.substr(0, size));
    const std::string message = message_of<load_error>([&] { tokenizer::load(directory.path()); });
    CAPTURE(size);
    CAPTURE(message);
    REQUIRE(message.starts_with(directory / "tokenizer.json: "));
  }
}

TEST_CASE("tokenizer: a damaged file is refused or read, and what is read encodes or refuses") {
  const temporary_directory directory;
  generator random(5);
  int refused = 0;
  int read = 0;
  const std::vector<std::string> names = {"llama3", "added", "deepseek", "several ways", "gpt2, a space before"};
  for (int i = 0; i < draws(3000); ++i) {
    std::string text = feature(names[static_cast<std::size_t>(i) % names.size()]).dump();
    // The vocabulary is most of the text: half of the damage goes to the rest.
    const std::size_t rest = text.find("\"vocab\"");
    const std::int64_t changes = random.integer(1, 3);
    for (std::int64_t k = 0; k < changes; ++k) {
      const std::size_t size = random.chance(0.5) ? std::min(rest, text.size()) : text.size();
      const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(size) - 1));
      switch (random.integer(0, 3)) {
        case 0:
          text[at] = static_cast<char>(random.integer(0, 255));
          break;
        case 1:
          text.erase(at, static_cast<std::size_t>(random.integer(1, 20)));
          break;
        case 2:
          text.insert(
              at, text.substr(static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(size) - 1)), 12));
          break;
        default:
          text[at] =
              random.pick<char>({'"', '{', '}', '[', ']', ',', '0', '9', '-', '\\', '*', '+', '?', '(', ')', '|'});
      }
    }
    write_file(directory / "tokenizer.json", text);
    try {
      const tokenizer t = tokenizer::load(directory.path());
      const std::string input = random_text(random, 60) + " the cat's 123 <|begin|>mat";
      for (const std::int32_t id : ids_of(t, input)) t.bytes_of(id);
      ++read;
    } catch (const load_error& error) {
      REQUIRE(std::string_view(error.what()).starts_with(directory / "tokenizer.json"));
      ++refused;
    }
  }
  CHECK(refused > 0);
  CHECK(read > 0);
}
