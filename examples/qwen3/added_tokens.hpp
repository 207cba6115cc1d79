#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "json_place.hpp"  // json_place

namespace qwen3 {

/// A token that is found in the text as it is, before anything splits it.
struct added_token {
  std::int32_t id = 0;
  std::string content;
  bool lstrip = false;      // takes the white space before it along
  bool rstrip = false;      // and after it
  bool normalized = false;  // is looked for after normalisation
  bool special = false;     // a marker and not text
};

/// Reads `added_tokens` of a tokenizer file. Throws load_error; `single_word` is refused by name.
std::vector<added_token> parse_added_tokens(const json_place& list);

/// Finds added tokens: leftmost first, the longest where several begin.
class added_token_finder {
 public:
  /// Looks for `content` from now on.
  void add(std::string_view content, const added_token& token);

  /// Calls `on_text(begin, end)` and `on_token(begin, end, id)` for the parts of `text`, in order; none is empty.
  template <class OnText, class OnToken>
  void split(std::string_view text, OnText&& on_text, OnToken&& on_token) const {
    std::size_t told = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::optional<found> hit = match(text, at, told);
      if (!hit) {
        ++at;
        continue;
      }
      if (told < hit->begin) on_text(told, hit->begin);
      on_token(hit->begin, hit->end, hit->id);
      told = at = hit->end;
    }
    if (told < text.size()) on_text(told, text.size());
  }

 private:
  struct found {
    std::size_t begin, end;
    std::int32_t id;
  };
  struct node {
    std::int32_t id = -1;
    bool lstrip = false, rstrip = false;
  };
  static std::uint64_t edge(std::uint32_t from, char byte);

  // The longest token at `at`, with its white space as far back as `told`.
  std::optional<found> match(std::string_view text, std::size_t at, std::size_t told) const;

  std::vector<node> nodes_ = std::vector<node>(1);
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // (node, byte) -> node
  bool begins_[256] = {};                                   // whether some token begins with the byte
};

}  // namespace qwen3
