#include "vocabulary.hpp"

#include <algorithm>

#include "byte_alphabet.hpp"  // bytes_of_token
#include "error.hpp"          // in_quotes

namespace qwen3 {

namespace {

std::string numbered(std::int32_t id) { return "id " + std::to_string(id); }

template <class Map, class Key>
std::optional<std::int32_t> look_up(const Map& map, const Key& key) {
  const auto found = map.find(key);
  return found == map.end() ? std::nullopt : std::optional<std::int32_t>(found->second);
}

}  // namespace

vocabulary::vocabulary(const json_place& words, std::span<const added_token> added) {
  std::int32_t largest = -1;
  for (const auto& word : words.object().value().items()) {
    if (!word.value().is_number_unsigned()) words.member(word.key().c_str()).id();  // says what is wrong with it
    if (word.value().get<std::uint64_t>() > INT32_MAX) words.member(word.key().c_str()).id();
    largest = std::max(largest, word.value().get<std::int32_t>());
  }
  for (const added_token& token : added) largest = std::max(largest, token.id);
  const std::size_t count = words.value().size() + added.size();
  if (largest < 0) words.refuse("is empty");
  if (static_cast<std::size_t>(largest) > 4 * count + 65536)
    words.refuse("has " + numbered(largest) + " but only " + std::to_string(count) + " tokens");
  entries_.resize(static_cast<std::size_t>(largest) + 1);
  add_words(words);
  for (const added_token& token : added) add_added(words, token);
}

void vocabulary::add_words(const json_place& words) {
  words_.reserve(words.value().size());
  for (const auto& word : words.value().items()) {
    const auto id = word.value().get<std::int32_t>();
    entry& slot = entries_[static_cast<std::size_t>(id)];
    if (slot.known) words.refuse("gives " + numbered(id) + " to " + in_quotes(word.key()) + " and to another token");
    slot.known = true;
    if (word.key().empty()) continue;
    auto bytes = bytes_of_token(word.key());
    slot.bytes = bytes ? std::move(*bytes) : word.key();
    if (bytes) words_.emplace(slot.bytes, id);
  }
}

void vocabulary::add_added(const json_place& words, const added_token& token) {
  const auto word = words.value().find(token.content);
  if (word != words.value().end() && word->get<std::int32_t>() != token.id)
    words.refuse("gives " + numbered(word->get<std::int32_t>()) + " to " + in_quotes(token.content) +
                 ", added_tokens gives it " + numbered(token.id));
  entry& slot = entries_[static_cast<std::size_t>(token.id)];
  if (slot.known && word == words.value().end())
    words.refuse("or added_tokens has another token with " + numbered(token.id) + ", that of " +
                 in_quotes(token.content));
  if (!added_.emplace(token.content, token.id).second)
    words.refuse("cannot be joined with added_tokens, which names " + in_quotes(token.content) + " twice");
  // A word of the BPE model that is added as well keeps its bytes: they are the key in words_.
  if (!slot.known) slot.bytes = token.content;
  slot.known = true;
  slot.special = token.special;
}

bool vocabulary::contains(std::int32_t id) const {
  return id >= 0 && id < size() && entries_[static_cast<std::size_t>(id)].known;
}

std::optional<std::int32_t> vocabulary::find_word(std::string_view bytes) const { return look_up(words_, bytes); }

std::optional<std::int32_t> vocabulary::find_added(std::string_view content) const {
  return look_up(added_, std::string(content));
}

}  // namespace qwen3
