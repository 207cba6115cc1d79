#pragma once

#include <string>

#include "eval.hpp"  // eval_report

namespace qwen3 {

/// The gnuplot script that draws a report as SVG: a line a method over what stays of the cache, answers
/// kept with their 95 % intervals where the data has answers, else the KL divergence from the full model.
std::string plot_script(const eval_report& report);

/// Draws a report as SVG, through the program gnuplot (Debian: gnuplot-nox). A file that is there is replaced whole.
/// Throws load_error when gnuplot is not installed or fails, or when there is nothing to draw.
void plot_report(const eval_report& report, const std::string& path);

/// The same of recall by layer: a line a method, under its smallest budget.
std::string layer_plot_script(const eval_report& report);
void plot_layers(const eval_report& report, const std::string& path);

}  // namespace qwen3
