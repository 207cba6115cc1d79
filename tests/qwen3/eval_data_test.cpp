#include "qwen3/eval_data.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "files.hpp"        // temporary_directory, message_of
#include "qwen3/error.hpp"  // load_error

namespace {

using namespace qwen3_test;
using qwen3::load_error;

const qwen3::tokenizer& words() {
  static const qwen3::tokenizer loaded = qwen3::tokenizer::load(KVPOP_MODELS "/notebook");
  return loaded;
}

std::vector<qwen3::eval_line> read(const std::string& text, std::size_t limit = 0) {
  const temporary_directory directory;
  write_file(directory / "data.jsonl", text);
  return qwen3::read_eval_data(directory / "data.jsonl", words(), {limit});
}

// What is said of a file, without its path in front.
std::string refusal(const std::string& text) {
  const std::string message = message_of<load_error>([&] { read(text); });
  const std::size_t at = message.find("data.jsonl");
  return at == std::string::npos ? message : message.substr(at + std::string("data.jsonl").size());
}

const std::string good = R"({"text": "note lilac goat\nask lilac goat\n", "answers": [[25, 30]]})"
                         "\n";

}  // namespace

TEST_CASE("a token belongs to an answer when its bytes overlap the range") {
  const auto lines = read(good);
  REQUIRE(lines.size() == 1);
  // note| lilac| goat|\n|ask| lilac| goat|\n: every word with the space before it is one token
  REQUIRE(lines[0].tokens.size() == 8);
  REQUIRE(lines[0].answers.size() == 1);
  CHECK(lines[0].answers[0].first == 6);
  CHECK(lines[0].answers[0].last == 7);
  CHECK(lines[0].prompt() == 6);
  CHECK(lines[0].number == 1);
  CHECK(read(good + good)[1].number == 2);
}

TEST_CASE("an answer may begin inside a token and span several") {
  const auto answer = [](int begin, int end) {
    return read(R"({"text": "note lilac goat\nask lilac goat\n", "answers": [[)" + std::to_string(begin) + "," +
                std::to_string(end) + "]]}")[0]
        .answers[0];
  };
  CHECK(answer(27, 28).first == 6);
  CHECK(answer(27, 28).last == 7);
  CHECK(answer(24, 26).first == 5);  // the last byte of " lilac" and the first of " goat"
  CHECK(answer(24, 26).last == 7);
  CHECK(answer(4, 31).first == 1);
  CHECK(answer(4, 31).last == 8);
}

TEST_CASE("lines without answers: half of the line is the prompt") {
  const auto lines = read(R"({"text": "so the well sees it\n", "answers": [], "source": "ignored"})");
  CHECK(lines[0].answers.empty());
  CHECK(lines[0].prompt() == (static_cast<std::int64_t>(lines[0].tokens.size()) + 1) / 2);
}

TEST_CASE("limit reads only the first lines: what follows is not looked at") {
  CHECK(read(good + good + "nonsense\n", 2).size() == 2);
  CHECK(read(good + good).size() == 2);
}

TEST_CASE("a line that is not valid is named with what is wrong with it") {
  CHECK(refusal(good + "{\"text\": \n").find(":2: is not valid JSON: ") == 0);
  CHECK(refusal(good + "\n" + good) == ":2: is empty; a JSON object was expected");
  CHECK(refusal("[1]\n") == ":1: is not a JSON object but array");
  CHECK(refusal("{\"answers\": []}") == ":1: \"text\" is missing");
  CHECK(refusal("{\"text\": \"a\"}") == ":1: \"answers\" is missing");
  CHECK(refusal("{\"text\": 5, \"answers\": []}") == ":1: \"text\" must be a string, not number");
  CHECK(refusal("{\"text\": \"\", \"answers\": []}") == ":1: \"text\" is empty");
  CHECK(refusal("{\"text\": \"a b\", \"answers\": {}}") ==
        ":1: \"answers\" must be a list of [begin, end], not object");
  const auto bad_range = [](const std::string& range) {
    return refusal(R"({"text": "so the well", "answers": [[6, 11], )" + range + "]}");
  };
  CHECK(bad_range("[6, 12]") == ":1: answers[1] is [6,12]; the text has 11 bytes");
  CHECK(bad_range("[-1, 3]") == ":1: answers[1] is [-1,3]; the text has 11 bytes");
  CHECK(bad_range("[3, 18446744073709551615]").find("the text has 11 bytes") != std::string::npos);
  CHECK(bad_range("[7, 7]") == ":1: answers[1] is [7,7]; it must begin before it ends");
  CHECK(bad_range("[9, 7]") == ":1: answers[1] is [9,7]; it must begin before it ends");
  CHECK(bad_range("[7]").find("it must be [begin, end], two whole numbers") != std::string::npos);
  CHECK(bad_range("[7, 8.5]").find("it must be [begin, end], two whole numbers") != std::string::npos);
  CHECK(bad_range("7").find("it must be [begin, end], two whole numbers") != std::string::npos);
  CHECK(refusal(R"({"text": "so", "text": "the", "answers": []})") == ":1: names \"text\" twice in one object");
  CHECK(refusal(std::string("{\"text\": \"so\", \"answers\": []}\0", 30)) == ":1: holds a NUL byte at byte 29");
  CHECK(refusal(std::string(100, '[')) == ":1: is nested deeper than 64 levels");
  CHECK(bad_range("[" + std::string(100, '9') + "]").size() < 160);  // a long value is cut
  CHECK(bad_range("[3, 7]") ==
        ":1: \"answers\" has [3,7] and [6,11], which overlap; every answer must have its own bytes");
  CHECK(bad_range("[6, 11]").find("has [6,11] and [6,11], which overlap") != std::string::npos);
  CHECK(bad_range("[3, 6]") == "(nothing was thrown)");  // neighbours
  CHECK(bad_range("[0, 2]") == ":1: answers[1] covers the first token: nothing stands before it to predict it from");
}

TEST_CASE("text that NFC would change has no place for answers") {
  const std::string composed = "so the caf\u00e9", decomposed = "so the cafe\u0301";
  CHECK(refusal("{\"text\": \"" + decomposed + "\", \"answers\": [[6, 11]]}").find("NFC would change \"text\"") !=
        std::string::npos);
  CHECK(read("{\"text\": \"" + decomposed + "\", \"answers\": []}").size() == 1);
  CHECK(read("{\"text\": \"" + composed + "\", \"answers\": [[6, 12]]}").size() == 1);
  CHECK(refusal("{\"text\": \"" + composed + "\", \"answers\": [[6, 11]]}").find("it cuts a character in two") !=
        std::string::npos);
}

TEST_CASE("a file that is missing, empty or a directory") {
  const auto message = [](const std::string& path) {
    return message_of<load_error>([&] { qwen3::read_eval_data(path, words()); });
  };
  const temporary_directory directory;
  write_file(directory / "empty.jsonl", "");
  CHECK(message(directory / "empty.jsonl") == directory / "empty.jsonl" + ": holds no line");
  CHECK(message(directory / "missing.jsonl").find(directory / "missing.jsonl") == 0);
  CHECK(message(directory.path()).find("directory") != std::string::npos);
}

TEST_CASE("a line may be cut to its first tokens, and loses the answers that are not wholly among them") {
  const temporary_directory directory;
  write_file(directory / "data.jsonl",
             R"({"text": "note lilac goat\nask lilac goat\n", "answers": [[4, 10], [19, 30]]})");
  const auto read = [&](std::size_t tokens) {
    return qwen3::read_eval_data(directory / "data.jsonl", words(), {.tokens = tokens})[0];
  };
  CHECK(read(0).tokens.size() == 8);
  CHECK(read(9).tokens.size() == 8);
  CHECK(read(7).answers.size() == 2);
  CHECK(read(6).tokens.size() == 6);
  CHECK(read(6).answers.size() == 1);
  CHECK(read(1).answers.empty());
  CHECK(read(1).prompt() == 1);
}
