#include "target.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "error.hpp"  // usage_error, in_quotes

namespace qwen3 {

target_settings target_of(std::string_view name) {
  using reduction = target_settings::reduction;
  if (name == "rms") return {};
  if (name == "mean") return {.over_queries = reduction::power, .alpha = 1};
  if (name == "max") return {.over_queries = reduction::max};
  if (name == "sum") return {.over_queries = reduction::sum};
  constexpr std::string_view prefix = "power:";
  if (name.starts_with(prefix)) {
    target_settings target;
    const std::string_view number = name.substr(prefix.size());
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), target.alpha);
    const bool whole = error == std::errc{} && end == number.data() + number.size();
    if (whole && target.alpha >= 0.01 && target.alpha <= 100) return target;
  }
  throw usage_error("--target is " + in_quotes(name) +
                    "; it must be rms, mean, max, sum or power:A with A from 0.01 to 100");
}

std::string name_of(const target_settings& target) {
  using reduction = target_settings::reduction;
  if (target.over_queries == reduction::max) return "max";
  if (target.over_queries == reduction::sum) return "sum";
  if (target.alpha == 1) return "mean";
  if (target.alpha == 2) return "rms";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "power:%g", target.alpha);
  return text.data();
}

}  // namespace qwen3
