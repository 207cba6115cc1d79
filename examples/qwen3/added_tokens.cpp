#include "added_tokens.hpp"

#include <algorithm>

#include "error.hpp"            // in_quotes
#include "unicode_classes.hpp"  // white_space
#include "utf8.hpp"             // first_utf8

namespace qwen3 {

namespace {

bool is_space(char32_t code) {
  return std::any_of(white_space.begin(), white_space.end(),
                     [code](const code_range& range) { return code >= range.first && code <= range.last; });
}

std::size_t after_space(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const utf8_unit unit = first_utf8(text.substr(at));
    if (!is_space(unit.code)) break;
    at += unit.size;
  }
  return at;
}

std::size_t before_space(std::string_view text, std::size_t at, std::size_t least) {
  while (at > least) {
    std::size_t begin = at - 1;
    while (begin > least && (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u) --begin;
    if (!is_space(first_utf8(text.substr(begin, at - begin)).code)) break;
    at = begin;
  }
  return at;
}

added_token parse_one(const json_place& place) {
  place.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  added_token token;
  token.id = place.member("id").id();
  token.content = place.member("content").text();
  if (token.content.empty()) place.refuse("is an added token without text");
  if (place.has("single_word") && place.member("single_word").flag())
    place.refuse("asks for single_word, which is not known here");
  token.lstrip = place.has("lstrip") && place.member("lstrip").flag();
  token.rstrip = place.has("rstrip") && place.member("rstrip").flag();
  token.special = place.has("special") && place.member("special").flag();
  token.normalized = place.has("normalized") ? place.member("normalized").flag() : !token.special;
  return token;
}

}  // namespace

std::vector<added_token> parse_added_tokens(const json_place& list) {
  std::vector<added_token> result;
  if (list.null()) return result;
  for (std::size_t i = 0; i < list.array_size(); ++i) result.push_back(parse_one(list.element(i)));
  return result;
}

std::uint64_t added_token_finder::edge(std::uint32_t from, char byte) {
  return std::uint64_t{from} << 8 | static_cast<unsigned char>(byte);
}

void added_token_finder::add(std::string_view content, const added_token& token) {
  begins_[static_cast<unsigned char>(content.front())] = true;
  std::uint32_t at = 0;
  for (const char byte : content) {
    const auto [entry, fresh] = edges_.try_emplace(edge(at, byte), static_cast<std::uint32_t>(nodes_.size()));
    if (fresh) nodes_.emplace_back();
    at = entry->second;
  }
  nodes_[at] = {token.id, token.lstrip, token.rstrip};
}

std::optional<added_token_finder::found> added_token_finder::match(std::string_view text, std::size_t at,
                                                                   std::size_t told) const {
  if (!begins_[static_cast<unsigned char>(text[at])]) return std::nullopt;
  std::uint32_t state = 0;
  const node* longest = nullptr;
  std::size_t end = at;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto next = edges_.find(edge(state, text[i]));
    if (next == edges_.end()) break;
    state = next->second;
    if (nodes_[state].id < 0) continue;
    longest = &nodes_[state];
    end = i + 1;
  }
  if (longest == nullptr) return std::nullopt;
  return found{longest->lstrip ? before_space(text, at, told) : at, longest->rstrip ? after_space(text, end) : end,
               longest->id};
}

}  // namespace qwen3
