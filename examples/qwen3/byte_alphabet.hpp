#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qwen3 {

/// The bytes that a token of a byte-level vocabulary stands for: such files write each byte as one printable character
/// (GPT-2's alphabet; a space is U+0120). Nothing when a character of `token`, which is UTF-8, is not of that alphabet.
std::optional<std::string> bytes_of_token(std::string_view token);

}  // namespace qwen3
