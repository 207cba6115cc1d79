#pragma once

#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "qwen3/files.hpp"         // read_file
#include "support/generators.hpp"  // generator

/// Random texts, and what Unicode's own library says of them: nothing here uses the engine.
namespace qwen3_test {

/// A Unicode scalar value; those that tokenizers treat differently are about equally likely.
inline std::int32_t pick_code(kvpop_test::generator& random) {
  const auto within = [&random](std::int64_t lo, std::int64_t hi) {
    return static_cast<std::int32_t>(random.integer(lo, hi));
  };
  switch (random.integer(0, 11)) {
    case 0:
      return within(0, 0x1F);
    case 1:
    case 2:
      return within(0x20, 0x7F);
    case 3:
      return random.pick<std::int32_t>({' ', ' ', '\n', '\r', '\t', 0x85, 0xA0, 0x180E, 0x2028, 0x3000});
    case 4:
      return within(0x80, 0x2FF);
    case 5:
      return within(0x300, 0x36F);  // combining marks
    case 6:
      return random.pick<std::int32_t>({0x1100, 0x1161, 0x11A8, 0xAC00, 0x212B, 0x344, 0x958, 0xFB1D, 0x1D15E, 0x323});
    case 7:
      return within(0x370, 0x1FFF);
    case 8:
      return within(0x2000, 0xD7FF);
    case 9:
      return within(0xE000, 0xFFFF);
    case 10:
      return within(0x10000, 0x3FFFF);
    default:
      return within(0x40000, 0x10FFFF);
  }
}

inline void append_code(std::string& text, std::int32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(code, bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

/// UTF-8 of all planes: ASCII, controls, NUL, white space in runs, letters, combining marks, private and unassigned.
inline std::string random_text(kvpop_test::generator& random, std::int64_t longest) {
  std::string text;
  const std::int64_t length = random.integer(0, longest);
  for (std::int64_t i = 0; i < length; ++i) append_code(text, pick_code(random));
  return text;
}

/// Normal form C.
inline std::string nfc_of(std::string_view text) {
  utf8proc_uint8_t* form = nullptr;
  const auto size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &form, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (size < 0) throw std::runtime_error(utf8proc_errmsg(size));
  std::string result(reinterpret_cast<const char*>(form), static_cast<std::size_t>(size));
  std::free(form);
  return result;
}

/// The first byte that begins no character.
inline std::optional<std::size_t> first_invalid(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t code = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                       static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (size < 1) return at;
    at += static_cast<std::size_t>(size);
  }
  return std::nullopt;
}

inline nlohmann::json read_test_json(const std::string& name) {
  return nlohmann::json::parse(read_file(std::string(KVPOP_TEST_DATA "/tokenizer/") + name));
}

}  // namespace qwen3_test
