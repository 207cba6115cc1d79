#include "qwen3/train_data.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "files.hpp"                // temporary_directory, message_of
#include "qwen3/error.hpp"          // load_error, input_error
#include "qwen3/notebook_data.hpp"  // make_notebook
#include "run_support.hpp"          // notebook

namespace {

using namespace qwen3_test;
using qwen3::packed_row;
using qwen3::training_texts;

std::string lines_of(int count, std::int64_t tokens) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += qwen3::notebook_line(qwen3::make_notebook({.tokens = tokens}, 3, static_cast<std::uint64_t>(i)));
  return text;
}

// Documents of a row, as token lists.
std::vector<std::vector<std::int32_t>> documents_of(const packed_row& row) {
  std::vector<std::vector<std::int32_t>> result;
  for (std::int64_t d = 0; d < row.documents(); ++d)
    result.emplace_back(row.tokens.begin() + row.begin(d), row.tokens.begin() + row.end(d));
  return result;
}

const qwen3::tokenizer& words() {
  static const qwen3::tokenizer t = qwen3::tokenizer::load(notebook);
  return t;
}

}  // namespace

TEST_CASE("rows hold every token of every document once, never more than fit, in pieces that teach something") {
  const temporary_directory directory;
  write_file(directory / "a.jsonl", lines_of(20, 150) + "\n" + lines_of(3, 900));
  const training_texts texts = training_texts::read({directory / "a.jsonl"}, words(), 64);
  CHECK(texts.documents() == 23);
  CHECK(texts.left_out() == 0);
  for (const std::int64_t length : {64, 200, 512, 4096}) {
    for (const std::uint64_t epoch : {0U, 1U}) {
      CAPTURE(length);
      const auto rows = texts.rows(length, 64, 5, epoch);
      std::int64_t tokens = 0;
      for (const packed_row& row : rows) {
        CHECK(row.size() <= length);
        CHECK(row.starts.front() == 0);
        for (const auto& document : documents_of(row)) CHECK(static_cast<std::int64_t>(document.size()) >= 64);
        tokens += row.size();
      }
      CHECK(tokens <= texts.tokens());
      if (length == 4096) CHECK(tokens == texts.tokens());  // nothing is cut into pieces too short
      CHECK(tokens >= texts.tokens() - 23 * 63);            // at most a short piece of each is lost
    }
  }
  const auto first = texts.rows(512, 64, 5, 0), again = texts.rows(512, 64, 5, 0), other = texts.rows(512, 64, 5, 1);
  REQUIRE(first.size() == again.size());
  bool same = true, differs = first.size() != other.size();
  for (std::size_t i = 0; i < first.size(); ++i) {
    same = same && first[i].tokens == again[i].tokens && first[i].starts == again[i].starts;
    differs = differs || (i < other.size() && first[i].tokens != other[i].tokens);
  }
  CHECK(same);
  CHECK(differs);
}

TEST_CASE("a stream of rows goes through one epoch after another") {
  const temporary_directory directory;
  write_file(directory / "a.jsonl", lines_of(6, 150));
  const training_texts texts = training_texts::read({directory / "a.jsonl"}, words(), 64);
  const auto epoch0 = texts.rows(300, 64, 7, 0), epoch1 = texts.rows(300, 64, 7, 1);
  qwen3::row_stream rows(texts, 300, 64, 7);
  for (std::size_t i = 0; i < epoch0.size(); ++i)
    CHECK(rows.at(static_cast<std::int64_t>(i)).tokens == epoch0[i].tokens);
  for (std::size_t i = 0; i < epoch1.size(); ++i)
    CHECK(rows.at(static_cast<std::int64_t>(epoch0.size() + i)).tokens == epoch1[i].tokens);
  qwen3::row_stream later(texts, 300, 64, 7);  // as a resumed training asks
  CHECK(later.at(static_cast<std::int64_t>(epoch0.size())).tokens == epoch1[0].tokens);
}

TEST_CASE("text files are documents of their own; one that is too short is named") {
  const temporary_directory directory;
  write_file(directory / "long.txt", qwen3::make_notebook({.tokens = 200}, 1, 0).text);
  write_file(directory / "short.txt", "the old mill sees a barn\n");
  CHECK(training_texts::read({directory / "long.txt"}, words(), 64).documents() == 1);
  CHECK(message_of<qwen3::load_error>([&] {
          training_texts::read({directory / "long.txt", directory / "short.txt"}, words(), 64);
        }) == directory / "short.txt" + " has 7 tokens; at least two windows, 64, are needed");
}

TEST_CASE("data that cannot be used says where and why") {
  const temporary_directory directory;
  const auto message = [&](const std::string& text) {
    write_file(directory / "a.jsonl", text);
    std::string m = message_of<qwen3::load_error>([&] { training_texts::read({directory / "a.jsonl"}, words(), 64); });
    if (m.starts_with("(nothing"))
      m = message_of<qwen3::input_error>([&] { training_texts::read({directory / "a.jsonl"}, words(), 64); });
    const auto at = m.find("a.jsonl");
    return at == std::string::npos ? m : m.substr(at);
  };
  CHECK(message("{\"text\": \"the barn\"}\n") ==
        "no usable text: 1 documents, all shorter than two windows, 64 tokens");
  CHECK(message("") == "no usable text: 0 documents, all shorter than two windows, 64 tokens");
  CHECK(message("\n{\"text\": 5}\n") == "a.jsonl:2: \"text\" is 5; it must be a string");
  CHECK(message("{}\n") == "a.jsonl:1: \"text\" is missing");
  CHECK(message("[1]\n") == "a.jsonl:1: is not a JSON object but array");
  CHECK(message("{\"text\": \n").find("a.jsonl:1: is not valid JSON") == 0);
  CHECK(message("{\"text\": \"\xff\"}\n").find("a.jsonl:1: is not valid JSON") == 0);
  CHECK(message_of<qwen3::load_error>([&] {
          training_texts::read({"/nowhere.txt"}, words(), 64);
        }).find("/nowhere.txt") != std::string::npos);
}
