#include "nfc.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <vector>

#include "utf8.hpp"  // first_utf8, append_utf8

namespace qwen3 {

namespace {

// Below U+0300 every character is its own form and none combines, and their lead bytes are below 0xCC.
bool surely_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

int combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

std::vector<utf8proc_int32_t> decompose(std::string_view text) {
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  std::array<utf8proc_int32_t, 32> few{};
  while (!text.empty()) {
    const utf8_unit unit = first_utf8(text);
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(unit.code), few.data(), few.size(),
                                               UTF8PROC_DECOMPOSE, nullptr);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(few.size()))
      throw std::runtime_error(std::string("utf8proc cannot decompose a character: ") + utf8proc_errmsg(count));
    codes.insert(codes.end(), few.begin(), few.begin() + count);
    text.remove_prefix(unit.size);
  }
  return codes;
}

// utf8proc's own ordering is quadratic in the length of a run of marks.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (auto begin = codes.begin(); begin != codes.end();) {
    if (combining_class(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, codes.end(), [](utf8proc_int32_t code) { return combining_class(code) == 0; });
    std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

}  // namespace

bool nfc_changes(std::string_view text, std::string& result) {
  if (surely_nfc(text)) return false;
  std::vector<utf8proc_int32_t> codes = decompose(text);
  order_marks(codes);
  const auto count = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (count < 0) throw std::runtime_error(std::string("utf8proc cannot normalise a text: ") + utf8proc_errmsg(count));
  std::string composed;
  composed.reserve(text.size());
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    append_utf8(composed, static_cast<char32_t>(codes[i]));
  if (composed == text) return false;
  result = std::move(composed);
  return true;
}

}  // namespace qwen3
