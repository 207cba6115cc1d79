#include "utf8.hpp"

#include <cstdint>
#include <cstring>

namespace qwen3 {

namespace {

unsigned at(std::string_view text, std::size_t index) { return static_cast<unsigned char>(text[index]); }

// The bytes that may follow a lead byte differ for the first of them alone (Unicode, table 3-7).
struct lead {
  std::size_t size;    // of the character; 0 for a byte that starts none
  unsigned low, high;  // of its second byte
};

lead lead_of(unsigned byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) return {3, byte == 0xE0 ? 0xA0u : 0x80u, byte == 0xED ? 0x9Fu : 0xBFu};
  if (byte < 0xF5) return {4, byte == 0xF0 ? 0x90u : 0x80u, byte == 0xF4 ? 0x8Fu : 0xBFu};
  return {0, 0, 0};
}

std::size_t ascii_prefix(std::string_view text, std::size_t begin) {
  constexpr std::uint64_t high_bits = 0x8080808080808080u;
  for (; begin + sizeof(std::uint64_t) <= text.size(); begin += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + begin, sizeof(word));
    if ((word & high_bits) != 0) break;
  }
  while (begin < text.size() && at(text, begin) < 0x80) ++begin;
  return begin;
}

}  // namespace

utf8_unit first_utf8(std::string_view text) {
  const unsigned first = at(text, 0);
  const lead start = lead_of(first);
  if (start.size == 0) return {utf8_unit::invalid, 1, 0};
  if (start.size == 1) return {utf8_unit::character, 1, first};
  char32_t code = first & (0x7Fu >> start.size);
  for (std::size_t i = 1; i < start.size; ++i) {
    if (i == text.size()) return {utf8_unit::incomplete, i, 0};
    const unsigned byte = at(text, i);
    const unsigned low = i == 1 ? start.low : 0x80u;
    const unsigned high = i == 1 ? start.high : 0xBFu;
    if (byte < low || byte > high) return {utf8_unit::invalid, i, 0};
    code = (code << 6) | (byte & 0x3Fu);
  }
  return {utf8_unit::character, start.size, code};
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t i = 0;
  while ((i = ascii_prefix(text, i)) < text.size()) {
    const utf8_unit unit = first_utf8(text.substr(i));
    if (unit.what != utf8_unit::character) return i;
    i += unit.size;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& text, char32_t code) {
  const auto tail = [code](unsigned shift) { return static_cast<char>(0x80u | ((code >> shift) & 0x3Fu)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0u | (code >> 6));
    text += tail(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0u | (code >> 12));
    text += tail(6);
    text += tail(0);
  } else {
    text += static_cast<char>(0xF0u | (code >> 18));
    text += tail(12);
    text += tail(6);
    text += tail(0);
  }
}

std::string take_whole_utf8(std::string& held, bool finish) {
  constexpr char32_t replacement = 0xFFFD;
  std::string result;
  std::size_t done = 0;
  while (done < held.size()) {
    const utf8_unit unit = first_utf8(std::string_view(held).substr(done));
    if (unit.what == utf8_unit::incomplete && !finish) break;
    if (unit.what == utf8_unit::character) {
      result.append(held, done, unit.size);
    } else {
      append_utf8(result, replacement);
    }
    done += unit.size;
  }
  held.erase(0, done);
  return result;
}

}  // namespace qwen3
