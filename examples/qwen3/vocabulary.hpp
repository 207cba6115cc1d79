#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "added_tokens.hpp"  // added_token
#include "json_place.hpp"    // json_place

namespace qwen3 {

/// The tokens: what bytes each id stands for, and the other way.
class vocabulary {
 public:
  vocabulary() = default;
  vocabulary(vocabulary&&) noexcept = default;
  vocabulary& operator=(vocabulary&&) noexcept = default;

  /// Takes `model.vocab` of a tokenizer file and its added tokens. Throws load_error when an id is given twice, a token has
  /// two ids, or ids leave such gaps that the table would be mostly empty.
  vocabulary(const json_place& words, std::span<const added_token> added);

  /// One more than the largest id.
  std::int32_t size() const { return static_cast<std::int32_t>(entries_.size()); }

  bool contains(std::int32_t id) const;
  /// The bytes of token `id`, which must be contained; valid as long as the vocabulary.
  std::string_view bytes(std::int32_t id) const { return entries_[static_cast<std::size_t>(id)].bytes; }
  bool special(std::int32_t id) const { return entries_[static_cast<std::size_t>(id)].special; }

  /// The token of the BPE model that stands for `bytes`; added tokens are not among them.
  std::optional<std::int32_t> find_word(std::string_view bytes) const;
  std::optional<std::int32_t> find_added(std::string_view content) const;

 private:
  struct entry {
    std::string bytes;
    bool known = false;
    bool special = false;
  };

  void add_words(const json_place& words);
  void add_added(const json_place& words, const added_token& token);

  std::vector<entry> entries_;                                // [size]
  std::unordered_map<std::string_view, std::int32_t> words_;  // keys view entries_
  std::unordered_map<std::string, std::int32_t> added_;
};

}  // namespace qwen3
