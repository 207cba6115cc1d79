#pragma once

#include <string>
#include <string_view>

namespace qwen3 {

/// The PCRE2 pattern (UTF, UCP, newline LF) that matches what the tokenizers library matches with `pattern`, which it
/// gives to Oniguruma in Ruby's syntax.
///
/// Known: literals, `.`, `^`, `$`, groups `(...)`, `(?:...)`, `(?i:...)`, `(?>...)`, lookaround, `|`, `* + ? {n} {n,m}` with
/// `?` and `+` after the first three, classes without nesting, and the escapes `\s \S \d \D \p{X} \P{X}` (general categories),
/// `\r \n \t \f \v \a \e \xHH \x{H} \uHHHH` and of punctuation. What the two read differently is written out; everything
/// else is refused: throws load_error naming it and its place. `pattern` is UTF-8.
std::string to_pcre2(std::string_view pattern);

/// The PCRE2 pattern that matches `text` as it is.
std::string literal_to_pcre2(std::string_view text);

}  // namespace qwen3
