#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace qwen3 {

/// A file, or what is in it, cannot be used. The message names the file, what is wrong and the limit. Exit status 1.
struct load_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The command line, or a value given by the person who runs the engine, cannot be used. Exit status 2.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A text, or token ids, that cannot be worked on. The message names the byte or the id. Exit status 1.
struct input_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// `text` in double quotes, fit for a message: control characters become `?`, and at most 100 bytes are shown.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 100;
  const bool cut = text.size() > longest;
  if (cut) {
    text = text.substr(0, longest);
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0u) == 0x80u) text.remove_suffix(1);  // whole
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0u) text.remove_suffix(1);  // UTF-8 characters
  }
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    result += code < 0x20 || code == 0x7F || c == '"' ? '?' : c;
  }
  return result + (cut ? "...\"" : "\"");
}

}  // namespace qwen3
