#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvpop/core/error.hpp"  // fail

/// @file
/// The lexical half of the safetensors header reader: the strings, integers and punctuation of JSON that a header may
/// hold, and nothing else. No recursion, so no depth can exhaust the stack.

KVPOP_NAMESPACE_BEGIN

/// A name from a file for an error message: in quotes, cut to 64 bytes, with bytes that are not printable ASCII as '?'.
[[nodiscard]] inline std::string in_quotes(std::string_view name) {
  constexpr std::size_t limit = 64;
  std::string text = "'";
  for (const char c : name.substr(0, limit)) {
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return text + (name.size() > limit ? "..'" : "'");
}

/// A position in the JSON text of a header. All members throw `error` naming the file and the byte.
class header_text {
 public:
  header_text(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  [[noreturn]] KVPOP_COLD void fail_here(const std::string& what) const {
    fail(file_ + ": byte " + std::to_string(at_) + " of the header: " + what);
  }

  /// Skips white space and takes `c` if it is next.
  [[nodiscard]] bool accept(char c) noexcept {
    skip_space();
    if (at_ < text_.size() && text_[at_] == c) {
      ++at_;
      return true;
    }
    return false;
  }

  /// Skips white space and takes `c`.
  void expect(char c) {
    if (!accept(c)) [[unlikely]] {
      fail_here(std::string("expected '") + c + (at_ == text_.size() ? "', found the end" : "'"));
    }
  }

  /// Nothing but white space is left.
  void expect_end() {
    skip_space();
    if (at_ != text_.size()) [[unlikely]] {
      fail_here("text after the end of the header");
    }
  }

  /// A non-negative integer below 2^63: digits without a leading zero.
  [[nodiscard]] index_t integer() {
    skip_space();
    const std::size_t first = at_;
    index_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, index_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<index_t>(text_[at_] - '0'), &value)) [[unlikely]] {
        fail_here("a number does not fit 63 bits");
      }
    }
    if (at_ == first) [[unlikely]] {
      fail_here("expected a non-negative integer");
    }
    if (text_[first] == '0' && at_ - first > 1) [[unlikely]] {
      fail_here("a number begins with 0");
    }
    return value;
  }

  /// A string: UTF-8 with JSON's escapes.
  [[nodiscard]] std::string string() {
    expect('"');
    std::string value;
    while (true) {
      if (at_ == text_.size()) [[unlikely]] {
        fail_here("a string has no end");
      }
      const char c = text_[at_++];
      if (c == '"') {
        return value;
      }
      if (c == '\\') {
        escape(value);
      } else if (static_cast<unsigned char>(c) < 0x20) [[unlikely]] {
        --at_;
        fail_here("a control character in a string");
      } else if (static_cast<unsigned char>(c) < 0x80) {
        value += c;
      } else {
        --at_;
        multibyte(value);
      }
    }
  }

 private:
  void skip_space() noexcept {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  /// What follows a backslash.
  void escape(std::string& value) {
    constexpr std::string_view plain = "\"\\/bfnrt";
    constexpr std::string_view meaning = "\"\\/\b\f\n\r\t";
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (const std::size_t i = plain.find(c); i != std::string_view::npos) {
      ++at_;
      value += meaning[i];
      return;
    }
    if (c != 'u') [[unlikely]] {
      fail_here("an escape that JSON does not know");
    }
    ++at_;
    unsigned code = hex();
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      at_ += 2;
      const unsigned low = hex();
      code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00) : 0xd800;
    }
    if (code >= 0xd800 && code < 0xe000) [[unlikely]] {
      fail_here("half of a surrogate pair");
    }
    append(value, code);
  }

  /// Four hexadecimal digits.
  unsigned hex() {
    unsigned code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                             : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10
                             : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A') + 10
                                                    : 16;
      if (digit == 16) [[unlikely]] {
        fail_here("\\u needs four hexadecimal digits");
      }
      code = code * 16 + digit;
    }
    return code;
  }

  static void append(std::string& value, unsigned code) {
    if (code < 0x80) {
      value += static_cast<char>(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    constexpr unsigned lead[] = {0, 0xc0, 0xe0, 0xf0};
    value += static_cast<char>(lead[more] | (code >> static_cast<unsigned>(6 * more)));
    for (int i = more - 1; i >= 0; --i) {
      value += static_cast<char>(0x80U | ((code >> static_cast<unsigned>(6 * i)) & 0x3fU));
    }
  }

  /// One character of two to four bytes; over-long forms, surrogates and what lies beyond U+10FFFF are refused.
  void multibyte(std::string& value) {
    const auto byte = [&](std::size_t i) -> unsigned {
      return at_ + i < text_.size() ? static_cast<unsigned char>(text_[at_ + i]) : 0U;
    };
    const unsigned first = byte(0);
    const std::size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    constexpr unsigned smallest[] = {0, 0x80, 0x800, 0x10000};
    unsigned code = first & (0x3fU >> more);
    bool valid = first >= 0xc2 && first <= 0xf4;
    for (std::size_t i = 1; i <= more; ++i) {
      valid = valid && (byte(i) & 0xc0U) == 0x80;
      code = (code << 6U) | (byte(i) & 0x3fU);
    }
    if (!valid || code < smallest[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) [[unlikely]] {
      fail_here("a string is not UTF-8");
    }
    value.append(text_.substr(at_, more + 1));
    at_ += more + 1;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

KVPOP_NAMESPACE_END
