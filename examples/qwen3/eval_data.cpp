#include "eval_data.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "error.hpp"        // load_error
#include "json_file.hpp"    // json_reason
#include "mapped_file.hpp"  // mapped_file

namespace qwen3 {

namespace {

using nlohmann::json;

// One line of the file with what messages need.
struct place {
  const std::string& path;
  std::size_t number;

  [[noreturn]] void refuse(const std::string& what) const {
    throw load_error(path + ":" + std::to_string(number) + ": " + what);
  }
};

const json& member(const json& object, const char* name, const place& at) {
  const auto found = object.find(name);
  if (found == object.end()) at.refuse(std::string("\"") + name + "\" is missing");
  return *found;
}

bool starts_character(std::string_view text, std::size_t byte) {
  return byte == text.size() || (static_cast<unsigned char>(text[byte]) & 0xC0U) != 0x80U;
}

byte_range read_range(const json& value, const std::string& name, std::string_view text, const place& at) {
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_integer() || !value[1].is_number_integer())
    at.refuse(name + " is " + value.dump() + "; it must be [begin, end], two whole numbers");
  // Unsigned numbers past 2^63 come out negative, and are refused as such.
  const auto begin = value[0].get<std::int64_t>(), end = value[1].get<std::int64_t>();
  if (begin < 0 || end < 0 || static_cast<std::uint64_t>(end) > text.size())
    at.refuse(name + " is " + value.dump() + "; the text has " + std::to_string(text.size()) + " bytes");
  if (begin >= end) at.refuse(name + " is " + value.dump() + "; it must begin before it ends");
  const byte_range range{static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
  if (!starts_character(text, range.begin) || !starts_character(text, range.end))
    at.refuse(name + " is " + value.dump() + "; it cuts a character in two");
  return range;
}

// The tokens whose bytes overlap the range. They are neighbours: tokens stand in the order of the text.
token_range tokens_of(const byte_range& range, const encoding& encoded, const std::string& name, const place& at) {
  token_range found{-1, -1};
  for (std::size_t i = 0; i < encoded.bytes.size(); ++i) {
    const byte_range& b = encoded.bytes[i];
    if (b.begin >= range.end || b.end <= range.begin) continue;
    if (found.first < 0) found.first = static_cast<std::int64_t>(i);
    found.last = static_cast<std::int64_t>(i) + 1;
  }
  if (found.first < 0) at.refuse(name + " covers no token");
  if (found.first == 0) at.refuse(name + " covers the first token: nothing stands before it to predict it from");
  return found;
}

std::vector<token_range> read_answers(const json& answers, std::string_view text, const encoding& encoded,
                                      const place& at) {
  if (!answers.is_array())
    at.refuse("\"answers\" must be a list of [begin, end], not " + std::string(answers.type_name()));
  if (!answers.empty() && encoded.normalized)
    at.refuse("NFC would change \"text\": the byte ranges of its answers have no place in it; normalise it first");
  std::vector<token_range> result;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string name = "answers[" + std::to_string(i) + "]";
    result.push_back(tokens_of(read_range(answers[i], name, text, at), encoded, name, at));
  }
  return result;
}

json parse(std::string_view line, const place& at) {
  try {
    return json::parse(line);
  } catch (const json::exception& error) {
    at.refuse("is not JSON: " + json_reason(error));
  }
}

eval_line read_line(std::string_view line, const tokenizer& tokens, const place& at) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) at.refuse("is empty; a JSON object was expected");
  const json object = parse(line, at);
  if (!object.is_object()) at.refuse("is not a JSON object but " + std::string(object.type_name()));
  const json& text_value = member(object, "text", at);
  if (!text_value.is_string()) at.refuse("\"text\" must be a string, not " + std::string(text_value.type_name()));
  const json& answers = member(object, "answers", at);
  const std::string& text = text_value.get_ref<const std::string&>();
  if (text.empty()) at.refuse("\"text\" is empty");
  encoding encoded = tokens.encode(text);
  eval_line result;
  result.number = at.number;
  result.answers = read_answers(answers, text, encoded, at);
  result.tokens = std::move(encoded.ids);
  if (result.tokens.empty()) at.refuse("\"text\" has no token");
  return result;
}

}  // namespace

std::int64_t eval_line::prompt() const {
  const auto all = static_cast<std::int64_t>(tokens.size());
  if (answers.empty()) return (all + 1) / 2;
  std::int64_t first = all;
  for (const token_range& answer : answers) first = std::min(first, answer.first);
  return first;
}

std::vector<eval_line> read_eval_data(const std::string& path, const tokenizer& tokens, std::size_t limit) {
  const mapped_file file = mapped_file::open(path);
  std::string_view rest = file.text();
  std::vector<eval_line> lines;
  std::size_t number = 0;
  while (!rest.empty() && (limit == 0 || lines.size() < limit)) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    ++number;
    lines.push_back(read_line(rest.substr(0, end), tokens, {path, number}));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (lines.empty()) throw load_error(path + ": holds no line");
  return lines;
}

}  // namespace qwen3
