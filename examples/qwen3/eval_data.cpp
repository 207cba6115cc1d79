#include "eval_data.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "error.hpp"        // load_error
#include "json_file.hpp"    // parse_json_object, shown
#include "line_reader.hpp"  // line_reader

namespace qwen3 {

namespace {

using nlohmann::json;

// Where messages say that something is wrong: `path:line`.
struct place {
  std::string name;

  [[noreturn]] void refuse(const std::string& what) const { throw load_error(name + ": " + what); }
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
    at.refuse(name + " is " + shown(value) + "; it must be [begin, end], two whole numbers");
  // Unsigned numbers past 2^63 come out negative, and are refused as such.
  const auto begin = value[0].get<std::int64_t>(), end = value[1].get<std::int64_t>();
  if (begin < 0 || end < 0 || static_cast<std::uint64_t>(end) > text.size())
    at.refuse(name + " is " + shown(value) + "; the text has " + std::to_string(text.size()) + " bytes");
  if (begin >= end) at.refuse(name + " is " + shown(value) + "; it must begin before it ends");
  const byte_range range{static_cast<std::size_t>(begin), static_cast<std::size_t>(end)};
  if (!starts_character(text, range.begin) || !starts_character(text, range.end))
    at.refuse(name + " is " + shown(value) + "; it cuts a character in two");
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

// No two answers may share a byte: the second's accuracy would be the first's.
void refuse_overlaps(std::vector<byte_range> ranges, const place& at) {
  std::sort(ranges.begin(), ranges.end(), [](const byte_range& a, const byte_range& b) { return a.begin < b.begin; });
  const auto text = [](const byte_range& r) { return shown({r.begin, r.end}); };
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin >= ranges[i - 1].end) continue;
    at.refuse("\"answers\" has " + text(ranges[i - 1]) + " and " + text(ranges[i]) +
              ", which overlap; every answer must have its own bytes");
  }
}

std::vector<token_range> read_answers(const json& answers, std::string_view text, const encoding& encoded,
                                      const place& at) {
  if (!answers.is_array())
    at.refuse("\"answers\" must be a list of [begin, end], not " + std::string(answers.type_name()));
  if (!answers.empty() && encoded.normalized)
    at.refuse("NFC would change \"text\": the byte ranges of its answers have no place in it; normalise it first");
  std::vector<byte_range> ranges;
  std::vector<token_range> result;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string name = "answers[" + std::to_string(i) + "]";
    ranges.push_back(read_range(answers[i], name, text, at));
    result.push_back(tokens_of(ranges.back(), encoded, name, at));
  }
  refuse_overlaps(std::move(ranges), at);
  return result;
}

eval_line read_line(const line_reader& lines, const tokenizer& tokens) {
  const place at{lines.place()};
  if (lines.blank()) at.refuse("is empty; a JSON object was expected");
  const json object = parse_json_object(lines.line(), at.name);
  const json& text_value = member(object, "text", at);
  if (!text_value.is_string()) at.refuse("\"text\" must be a string, not " + std::string(text_value.type_name()));
  const json& answers = member(object, "answers", at);
  const std::string& text = text_value.get_ref<const std::string&>();
  if (text.empty()) at.refuse("\"text\" is empty");
  encoding encoded = tokens.encode(text);
  eval_line result;
  result.number = lines.number();
  result.answers = read_answers(answers, text, encoded, at);
  result.tokens = std::move(encoded.ids);
  if (result.tokens.empty()) at.refuse("\"text\" has no token");
  return result;
}

void truncate(eval_line& line, std::size_t tokens) {
  if (tokens == 0 || line.tokens.size() <= tokens) return;
  line.tokens.resize(tokens);
  std::erase_if(line.answers, [&](const token_range& r) { return r.last > static_cast<std::int64_t>(tokens); });
}

}  // namespace

std::int64_t eval_line::prompt() const {
  const auto all = static_cast<std::int64_t>(tokens.size());
  if (answers.empty()) return (all + 1) / 2;
  std::int64_t first = all;
  for (const token_range& answer : answers) first = std::min(first, answer.first);
  return first;
}

std::vector<eval_line> read_eval_data(const std::string& path, const tokenizer& tokens, const eval_limits& limits) {
  line_reader file(path);
  std::vector<eval_line> lines;
  while ((limits.lines == 0 || lines.size() < limits.lines) && file.next()) {
    lines.push_back(read_line(file, tokens));
    truncate(lines.back(), limits.tokens);
  }
  if (lines.empty()) throw load_error(path + ": holds no line");
  return lines;
}

}  // namespace qwen3
