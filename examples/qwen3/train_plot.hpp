#pragma once

#include <string>

namespace qwen3 {

/// Draws what `qwen3 train --log` wrote: loss, boundary accuracy and recall over steps, of the training (as running means)
/// and of the held-out text. Throws load_error when the log cannot be read or gnuplot fails.
void plot_training(const std::string& log, const std::string& path);

}  // namespace qwen3
