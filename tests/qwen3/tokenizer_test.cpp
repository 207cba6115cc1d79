#include "qwen3/tokenizer.hpp"

#include <doctest/doctest.h>

#include <thread>

#include "qwen3/error.hpp"         // input_error
#include "qwen3/files.hpp"         // message_of
#include "qwen3/texts.hpp"         // random_text, nfc_of, first_invalid, read_test_json
#include "support/generators.hpp"  // generator, draws

using kvpop_test::draws;
using kvpop_test::generator;
using qwen3::encoding;
using qwen3::input_error;
using qwen3::tokenizer;
using namespace qwen3_test;

namespace {

using id_list = std::vector<std::int32_t>;

const tokenizer& notebook() {
  static const tokenizer loaded = tokenizer::load(KVPOP_MODELS "/notebook");
  return loaded;
}

// Every byte of the text belongs to the token whose range holds it.
void check_ranges(const tokenizer& t, std::string_view text, const encoding& e) {
  REQUIRE(e.bytes.size() == e.ids.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < e.ids.size(); ++i) {
    REQUIRE(e.bytes[i].begin == next);
    next = e.bytes[i].end;
    REQUIRE(t.bytes_of(e.ids[i]) == text.substr(e.bytes[i].begin, next - e.bytes[i].begin));
  }
  REQUIRE(next == text.size());
}

}  // namespace

TEST_CASE("tokenizer: the notebook's ids are those of the tokenizers library") {
  for (const auto& row : read_test_json("notebook_expected.json")) {
    const auto text = row["text"].get<std::string>();
    CAPTURE(text);
    const encoding e = notebook().encode(text);
    CHECK(e.ids == row["ids"].get<id_list>());
    CHECK(notebook().decode(e.ids) == row["decoded"].get<std::string>());
    CHECK(e.dropped == 0);
  }
}

TEST_CASE("tokenizer: decoding what was encoded gives the text's normal form C, and the ranges tile the text") {
  generator random(1);
  int changed = 0;
  for (int i = 0; i < draws(5000); ++i) {
    const std::string text = random_text(random, i % 100 == 0 ? 2000 : 40);
    const std::string form = nfc_of(text);
    const encoding e = notebook().encode(text);
    REQUIRE(notebook().decode(e.ids) == form);
    REQUIRE(e.normalized == (form != text));
    if (e.normalized) {
      REQUIRE(e.bytes.empty());
      ++changed;
    } else {
      check_ranges(notebook(), text, e);
    }
  }
  CHECK(changed > 0);
}

TEST_CASE("tokenizer: special tokens stand for themselves and split the text") {
  const std::string text = "a<|im_start|>b<|im_end|><|endoftext|> <|im_end";
  const encoding e = notebook().encode(text);
  check_ranges(notebook(), text, e);
  CHECK(notebook().decode(e.ids) == text);
  const auto start = notebook().find("<|im_start|>");
  REQUIRE(start.has_value());
  CHECK(*start == 759);
  CHECK(e.ids[1] == 759);
  CHECK(notebook().is_special(759));
  CHECK_FALSE(notebook().is_special(0));
  CHECK_FALSE(notebook().is_special(-1));
  CHECK_FALSE(notebook().is_special(100000));
  CHECK(notebook().find(" the").has_value());
  CHECK_FALSE(notebook().find("no such token").has_value());
  CHECK(notebook().size() == 761);
  CHECK(id_list(notebook().stop_ids().begin(), notebook().stop_ids().end()) == id_list{760});
}

TEST_CASE("tokenizer: text that is not UTF-8 is refused at its first wrong byte") {
  generator random(2);
  int wrong = 0;
  for (int i = 0; i < draws(5000); ++i) {
    std::string text = random_text(random, 20);
    const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(text.size())));
    const auto damage = random.pick<std::string_view>({"\x80", "\xC0\xAF", "\xC1", "\xE0\x80\x80", "\xED\xA0\x80",
                                                       "\xF4\x90\x80\x80", "\xF5", "\xFF", "\xE2\x82", "\xF0\x9F\x98"});
    if (random.chance(0.5)) {
      text.insert(at, damage);
    } else {
      text.resize(at);  // perhaps inside a character
    }
    const auto invalid = first_invalid(text);
    if (!invalid) {
      notebook().encode(text);
      continue;
    }
    ++wrong;
    const std::string message = message_of<input_error>([&] { notebook().encode(text); });
    CAPTURE(message);
    REQUIRE(message.starts_with("the text is not UTF-8: byte " + std::to_string(*invalid) + " is "));
  }
  CHECK(wrong > draws(5000) / 4);
}

TEST_CASE("tokenizer: ids that no token has are refused by number") {
  for (const std::int32_t id : {761, 767, -1, 2147483647}) {
    const std::string number = std::to_string(id);
    const std::string message = message_of<input_error>([&] { notebook().decode(id_list{1, id}); });
    CHECK(message == "no token has id " + number + "; the vocabulary has ids from 0 to 760");
  }
}

TEST_CASE("tokenizer: a megabyte of one character is no trouble") {
  constexpr std::size_t count = kvpop_test::sanitized ? 1 << 14 : 1 << 19;
  const auto repeated = [](std::string_view unit) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += unit;
    return text;
  };
  for (const std::string_view unit : {"a", "aa", " ", "\n", " \n", "<|", "\xE4\xB8\xAD"}) {
    const std::string text = repeated(unit);
    CHECK(notebook().decode(notebook().encode(text).ids) == text);
  }
  // Marks of two classes in turn: the normal form has all of the lower class first.
  const encoding marks = notebook().encode(repeated("\xCC\x81\xCC\xA3"));
  CHECK(notebook().decode(marks.ids) == repeated("\xCC\xA3") + repeated("\xCC\x81"));
}

TEST_CASE("tokenizer: more different words than the cache holds are encoded as each alone") {
  constexpr int words = 40000;
  std::string text;
  id_list expected;
  for (int i = 0; i < words; ++i) {
    std::string word = " ";
    for (int n = i + 26; n > 0; n /= 26) word += static_cast<char>('a' + n % 26);
    text += word;
    const encoding alone = notebook().encode(word);
    expected.insert(expected.end(), alone.ids.begin(), alone.ids.end());
  }
  CHECK(notebook().encode(text + text).ids.size() == 2 * expected.size());
  CHECK(notebook().encode(text).ids == expected);
}

TEST_CASE("tokenizer: threads share one") {
  const std::string text = read_file(KVPOP_MODELS "/notebook/README.md");
  const id_list expected = notebook().encode(text).ids;
  std::vector<id_list> results(4);
  std::vector<std::thread> threads;
  for (id_list& result : results) threads.emplace_back([&] { result = notebook().encode(text).ids; });
  for (std::thread& one : threads) one.join();
  for (const id_list& result : results) CHECK(result == expected);
}

TEST_CASE("text_stream: whole characters only, and in the end the whole text") {
  generator random(3);
  for (int i = 0; i < draws(1000); ++i) {
    const std::string text = nfc_of(random_text(random, 20));
    qwen3::text_stream stream(notebook());
    std::string all;
    for (const std::int32_t id : notebook().encode(text).ids) {
      const std::string part = stream.push(id);
      REQUIRE_FALSE(first_invalid(part).has_value());
      all += part;
    }
    REQUIRE(stream.finish().empty());
    REQUIRE(all == text);
  }
}

TEST_CASE("text_stream: bytes that can become no character become U+FFFD as soon as that is certain") {
  const auto byte = [](unsigned value) {
    const char text = static_cast<char>(value);
    return *notebook().find(std::string_view(&text, 1));
  };
  qwen3::text_stream stream(notebook());
  CHECK(stream.push(byte(0xF0)).empty());
  CHECK(stream.push(byte(0x9F)).empty());
  CHECK(stream.push(byte('a')) ==
        "\xEF\xBF\xBD"
        "a");
  CHECK(stream.push(byte(0x80)) == "\xEF\xBF\xBD");
  CHECK(stream.push(byte(0xE2)).empty());
  CHECK(stream.push(byte(0xC3)) == "\xEF\xBF\xBD");
  CHECK(stream.push(byte(0xA9)) == "\xC3\xA9");
  CHECK(stream.push(byte(0xE4)).empty());
  CHECK(stream.finish() == "\xEF\xBF\xBD");
  CHECK(stream.finish().empty());
  CHECK_THROWS_AS(stream.push(761), input_error);
}
