#include "chart.hpp"

#include <array>
#include <cstdio>

namespace qwen3 {

chart::chart(std::string_view settings)
    : preamble_(
          "set terminal svg size 860,520 enhanced font 'Helvetica,14' background '#ffffff'\n"
          "set key outside right top reverse Left noenhanced\nset grid ytics lc rgb '#dddddd'\nset border 3\n"
          "set tics nomirror\n") {
  preamble_ += settings;
}

std::string chart::data(std::string_view rows) {
  std::string name = "$data" + std::to_string(count_++);
  preamble_ += name + " << EOD\n" + std::string(rows) + "EOD\n";
  return name;
}

void chart::curve(const std::string& words) { curves_ += (curves_.empty() ? "" : ", ") + words; }

std::string chart_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

// gnuplot's single quotes know one escape: a doubled quote.
std::string chart_text(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

}  // namespace qwen3
