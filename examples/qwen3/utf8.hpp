#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qwen3 {

/// What the bytes at the start of a text are.
struct utf8_unit {
  enum kind { character, invalid, incomplete };
  kind what = character;
  std::size_t size = 0;  // bytes of the character, or of the longest beginning of one that is no character
  char32_t code = 0;     // only of a character
};

/// The first character of `text`, which must not be empty. As Unicode has it: no surrogates, nothing past U+10FFFF, no
/// overlong forms. `incomplete` when the text ends before the character does.
utf8_unit first_utf8(std::string_view text);

/// The first byte that is not part of a UTF-8 character, or `std::string_view::npos`.
std::size_t find_invalid_utf8(std::string_view text);

/// Appends `code`, which must be a Unicode scalar value.
void append_utf8(std::string& text, char32_t code);

/// Moves what is whole out of `held` into the result, U+FFFD for what can never become a character, and leaves a last
/// character that is incomplete. With `finish` that becomes U+FFFD too.
std::string take_whole_utf8(std::string& held, bool finish);

}  // namespace qwen3
