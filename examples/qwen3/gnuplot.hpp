#pragma once

#include <string>

namespace qwen3 {

/// Runs a gnuplot script that draws one SVG on its standard output; the drawing replaces `path` whole, or nothing does.
/// No other file is touched. Throws load_error when the program gnuplot (Debian: gnuplot-nox) is not installed, fails or
/// draws a part only, and when `path` cannot be written.
void draw_svg(const std::string& script, const std::string& path);

}  // namespace qwen3
