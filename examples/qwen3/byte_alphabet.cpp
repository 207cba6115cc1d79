#include "byte_alphabet.hpp"

#include <array>

#include "utf8.hpp"  // first_utf8

namespace qwen3 {

namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t alphabet_end = 0x144;  // 256 and as many as the bytes that do not stand for themselves

constexpr std::array<short, alphabet_end> make_byte_of() {
  std::array<short, alphabet_end> result{};
  for (short& entry : result) entry = -1;
  char32_t stand_in = 256;
  for (unsigned byte = 0; byte < 256; ++byte)
    result[stands_for_itself(byte) ? char32_t{byte} : stand_in++] = static_cast<short>(byte);
  return result;
}

constexpr std::array<short, alphabet_end> byte_of = make_byte_of();

}  // namespace

std::optional<std::string> bytes_of_token(std::string_view token) {
  std::string result;
  while (!token.empty()) {
    const utf8_unit unit = first_utf8(token);
    const short byte = unit.code < alphabet_end ? byte_of[unit.code] : short{-1};
    if (byte < 0) return std::nullopt;
    result += static_cast<char>(byte);
    token.remove_prefix(unit.size);
  }
  return result;
}

}  // namespace qwen3
