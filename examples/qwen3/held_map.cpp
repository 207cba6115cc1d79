#include "held_map.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string_view>

namespace qwen3 {

namespace {

const char* const style = R"(<style>
:root { color-scheme: light; font: 15px/1.7 system-ui, sans-serif; }
body { max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; background: #fff; }
h1 { font-size: 1.2em; } p { color: #555; }
pre { white-space: pre-wrap; font: 14px/1.8 ui-monospace, monospace; }
pre span { border-radius: 2px; padding: 1px 0; }
.made { border-bottom: 2px solid #d55e00; }
svg { width: 100%; height: auto; } svg text { font: 9px sans-serif; fill: #555; }
</style>
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string format(const char* pattern, double a, double b = 0, double c = 0) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), pattern, a, b, c);
  return text.data();
}

std::int64_t head_count(const held_map& map) {
  std::int64_t count = 0;
  for (const auto& layer : map.heads) count += static_cast<std::int64_t>(layer.size());
  return count;
}

// [tokens] how many heads hold each.
std::vector<std::int64_t> holders(const held_map& map) {
  std::vector<std::int64_t> count(map.tokens.size());
  for (const auto& layer : map.heads) {
    for (const auto& head : layer) {
      for (const std::int64_t position : head) {
        if (position < static_cast<std::int64_t>(count.size())) ++count[static_cast<std::size_t>(position)];
      }
    }
  }
  return count;
}

std::string text_part(const held_map& map) {
  const std::vector<std::int64_t> count = holders(map);
  const std::int64_t heads = std::max<std::int64_t>(1, head_count(map));
  std::string html = "<pre>";
  for (std::size_t t = 0; t < map.tokens.size(); ++t) {
    const bool made = static_cast<std::int64_t>(t) >= map.prompt;
    html += made ? "<span class=\"made\"" : "<span";
    html += format(" style=\"background:rgba(0,114,178,%.2f)\"",
                   0.75 * static_cast<double>(count[t]) / static_cast<double>(heads));
    html += " title=\"position " + std::to_string(t) + ": held by " + std::to_string(count[t]) + " of " +
            std::to_string(heads) + " KV heads\">" + escaped(map.tokens[t]) + "</span>";
  }
  return html + "</pre>\n";
}

// A row a head; a run of held positions is one rectangle.
std::string grid_part(const held_map& map) {
  constexpr double left = 46, row_height = 12, width = 1000;
  const double tokens = std::max(1.0, static_cast<double>(map.tokens.size()));
  const double rows = static_cast<double>(head_count(map));
  std::string svg = format("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n", left + width, rows * row_height + 16);
  double y = 0;
  for (std::size_t layer = 0; layer < map.heads.size(); ++layer) {
    for (std::size_t h = 0; h < map.heads[layer].size(); ++h, y += row_height) {
      svg += format("<text x=\"0\" y=\"%.1f\">", y + 9) + "L" + std::to_string(layer) + " H" + std::to_string(h) +
             "</text>";
      svg += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"1000\" height=\"10\" fill=\"#f0f0f0\"/>", left, y);
      svg += "<path fill=\"#0072b2\" d=\"";
      const std::vector<std::int64_t>& held = map.heads[layer][h];
      for (std::size_t i = 0; i < held.size();) {
        std::size_t end = i + 1;
        while (end < held.size() && held[end] == held[end - 1] + 1) ++end;
        svg += format("M%.2f %.1fh%.2f", left + static_cast<double>(held[i]) / tokens * width, y,
                      static_cast<double>(end - i) / tokens * width) +
               "v10";
        svg += format("h-%.2fz", static_cast<double>(end - i) / tokens * width);
        i = end;
      }
      svg += "\"/>\n";
    }
  }
  svg += format("<text x=\"%.1f\" y=\"%.1f\">position 0</text>", left, y + 12);
  svg += format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n", left + width, y + 12, tokens - 1);
  return svg + "</svg>\n";
}

}  // namespace

std::string held_map_page(const held_map& map) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>" + escaped(map.title) + "</title>\n";
  page += style;
  page += "<h1>" + escaped(map.title) + "</h1>\n";
  page +=
      "<p>The darker a token, the more KV heads still hold it at the end; white tokens are forgotten. What the model "
      "wrote is underlined.</p>\n";
  page += text_part(map);
  page += "<p>The same by head: a mark where it holds the token of a position.</p>\n";
  page += grid_part(map);
  return page + "</html>\n";
}

}  // namespace qwen3
