#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;
struct pcre2_real_match_data_8;

namespace qwen3 {

/// A compiled regular expression over UTF-8. Immutable: threads may share it, each with its own `matcher`.
class pattern {
 public:
  /// Compiles a PCRE2 pattern (pattern_syntax.hpp makes them). Throws load_error with PCRE2's own words.
  explicit pattern(const std::string& source);

 private:
  friend class matcher;
  struct release {
    void operator()(pcre2_real_code_8* code) const noexcept;
  };
  std::unique_ptr<pcre2_real_code_8, release> code_;
};

/// The room that one thread needs to match one pattern, which must outlive it.
class matcher {
 public:
  explicit matcher(const pattern& source);

  /// A match: bytes [begin, end) of the text.
  struct match {
    std::size_t begin;
    std::size_t end;
  };

  /// The first match at or after byte `start` of `text`, which must be UTF-8 (it is not checked again). Throws
  /// std::runtime_error when PCRE2 gives up.
  std::optional<match> find(std::string_view text, std::size_t start);

  /// Calls `emit(begin, end)` for every match of `text` and for what lies between matches, in order; none is empty.
  template <class Emit>
  void split(std::string_view text, Emit&& emit) {
    std::size_t start = 0;  // where to look
    std::size_t told = 0;   // what is emitted
    bool after_match = false;
    while (start <= text.size()) {
      const std::optional<match> found = find(text, start);
      if (!found) break;
      if (found->begin == found->end && after_match && found->end == told) {  // nothing at the end of the last one
        if (start == text.size()) break;
        start += next_character(text, start);
        continue;
      }
      if (told < found->begin) emit(told, found->begin);
      if (found->begin < found->end) emit(found->begin, found->end);
      start = told = found->end;
      after_match = true;
    }
    if (told < text.size()) emit(told, text.size());
  }

 private:
  static std::size_t next_character(std::string_view text, std::size_t start);

  struct release {
    void operator()(pcre2_real_match_data_8* data) const noexcept;
  };
  const pattern* source_;
  std::unique_ptr<pcre2_real_match_data_8, release> data_;
};

}  // namespace qwen3
