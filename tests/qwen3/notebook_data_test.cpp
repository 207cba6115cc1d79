#include "qwen3/notebook_data.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "qwen3/tokenizer.hpp"  // tokenizer
#include "run_support.hpp"      // notebook

namespace {

using qwen3::make_notebook;
using qwen3::notebook_document;

struct record {
  std::string value;
  int marked_after = -1;  // lines between the record and its mark
  int noted_line = 0;
  bool confirmed = false;
  std::int64_t mentioned = 0;  // token of the line that last did
};

// Lines of a document, checked one by one against the task's rules. Returns how many of each kind there were.
std::map<std::string, int> check_rules(const notebook_document& document, std::int64_t least_gap) {
  std::map<std::string, int> kinds;
  std::map<std::string, record> records;
  std::istringstream lines(document.text);
  std::size_t byte = 0, answer = 0;
  std::int64_t token = 0;
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    std::istringstream words(line);
    std::string kind, name, value;
    words >> kind >> name >> value;
    ++kinds[kind];
    if (kind == "note") {
      REQUIRE(records.count(name) == 0);  // a name occurs in one record
      records[name].value = value;
      records[name].noted_line = number;
    } else if (kind == "keep" || kind == "drop") {
      REQUIRE(records.count(name) == 1);
      record& r = records[name];
      REQUIRE(r.marked_after == -1);
      r.marked_after = number - r.noted_line - 1;
      REQUIRE(r.marked_after <= 4);  // 0 to 2 lines, or as long as other marks were due
      r.confirmed = kind == "keep";
      r.mentioned = token;
    } else if (kind == "ask") {
      record& r = records.at(name);
      REQUIRE(r.confirmed);
      REQUIRE(r.value == value);
      REQUIRE(token - r.mentioned >= least_gap);
      r.mentioned = token;
      REQUIRE(answer < document.answers.size());
      const auto [begin, end] = document.answers[answer++];
      REQUIRE(document.text.substr(begin, end - begin) == " " + value);
      REQUIRE(end == byte + line.size());
    } else {
      REQUIRE((kind == "the" || kind == "a" || kind == "so"));
    }
    token += static_cast<std::int64_t>(std::count(line.begin(), line.end(), ' ')) + 2;
    byte += line.size() + 1;
  }
  REQUIRE(answer == document.answers.size());
  return kinds;
}

TEST_CASE("every line keeps the rules of the task, and answers stand where they are said to") {
  for (std::uint64_t i = 0; i < 200; ++i) check_rules(make_notebook({}, 5, i), 256);
  for (std::uint64_t i = 0; i < 50; ++i)
    check_rules(make_notebook({.tokens = 700, .records = 0.4, .questions = 0.5, .kept = 0.9, .least_gap = 20}, 6, i),
                20);
}

TEST_CASE("lines are drawn as often as the definition says") {
  // Means of 2,000 lines of data/notebook/notebook.py (python notebook.py 2000 1024 5), with four standard errors of ours.
  const std::map<std::string, double> expected{{"the", 36.64},  {"a", 36.37},    {"so", 36.50}, {"note", 34.73},
                                               {"keep", 12.02}, {"drop", 22.38}, {"ask", 13.52}};
  std::map<std::string, double> sums, squares;
  constexpr int documents = 600;
  for (int i = 0; i < documents; ++i) {
    const auto kinds = check_rules(make_notebook({}, 7, static_cast<std::uint64_t>(i)), 256);
    for (const auto& [kind, mean] : expected) {
      const double n = kinds.count(kind) != 0 ? kinds.at(kind) : 0;
      sums[kind] += n, squares[kind] += n * n;
    }
  }
  for (const auto& [kind, mean] : expected) {
    const std::string name = kind;
    CAPTURE(name);
    const double ours = sums[kind] / documents;
    const double error = std::sqrt((squares[kind] / documents - ours * ours) / documents);
    CHECK(std::abs(ours - mean) < 4 * error + 0.2);
  }
}

TEST_CASE("the length is that of the notebook's tokenizer, and text follows from seed and number alone") {
  const qwen3::tokenizer words = qwen3::tokenizer::load(qwen3_test::notebook);
  for (std::uint64_t i = 0; i < 10; ++i) {
    const notebook_document a = make_notebook({.tokens = 500}, 9, i);
    const auto tokens = words.encode(a.text).ids.size();
    CHECK(tokens >= 500);
    CHECK(tokens < 510);
    CHECK(make_notebook({.tokens = 500}, 9, i).text == a.text);
    CHECK(make_notebook({.tokens = 500}, 9, i + 1).text != a.text);
    CHECK(make_notebook({.tokens = 500}, 10, i).text != a.text);
  }
}

TEST_CASE("a line of data is what eval reads") {
  const notebook_document document = make_notebook({}, 1, 0);
  const auto json = nlohmann::json::parse(qwen3::notebook_line(document));
  CHECK(json["text"] == document.text);
  REQUIRE(json["answers"].size() == document.answers.size());
  for (std::size_t i = 0; i < document.answers.size(); ++i) {
    CHECK(json["answers"][i][0] == document.answers[i].first);
    CHECK(json["answers"][i][1] == document.answers[i].second);
  }
}

}  // namespace
