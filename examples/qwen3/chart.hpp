#pragma once

#include <string>
#include <string_view>

namespace qwen3 {

/// A gnuplot script that is put together: the house's look, settings of this chart, data, and the curves over them.
class chart {
 public:
  /// `settings`: lines of gnuplot, axes and ranges.
  explicit chart(std::string_view settings);

  /// Adds rows of numbers, a line each; returns the name that curves call them by.
  std::string data(std::string_view rows);

  /// Adds a curve as gnuplot's `plot` words it: `$data0 using 1:2 with lines`.
  void curve(const std::string& words);

  /// For draw_svg. Precondition: at least one curve.
  std::string script() const { return preamble_ + "plot " + curves_ + '\n'; }

 private:
  std::string preamble_, curves_;
  int count_ = 0;
};

/// Nine digits, which is what a float holds.
std::string chart_number(double value);

/// A string as gnuplot reads it.
std::string chart_text(std::string_view text);

}  // namespace qwen3
