#include "plot.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "error.hpp"    // load_error
#include "gnuplot.hpp"  // draw_svg

namespace qwen3 {

namespace {

// One method's line: x, y and, where there are some, the ends of the interval.
struct series {
  method name;
  std::string rows;
};

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

// gnuplot's single quotes know one escape: a doubled quote.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

bool has_answers(const eval_report& report) {
  for (const eval_result& r : report.results) {
    if (r.retention) return true;
  }
  return false;
}

// By compression where that was asked for, else by entries.
double x_of(const eval_result& r) { return r.compression.value_or(static_cast<double>(r.budget)); }

std::vector<series> series_of(const eval_report& report) {
  const bool answers = has_answers(report);
  std::vector<series> all;
  for (const eval_result& r : report.results) {
    if (r.name == method::full || (answers ? !r.retention.has_value() : !r.kl.has_value())) continue;
    if (all.empty() || all.back().name != r.name) all.push_back({r.name, ""});
    std::string& rows = all.back().rows;
    rows += number(x_of(r)) + ' ';
    const ratio_estimate& y = answers ? *r.retention : *r.kl;
    rows += number(y.value) + ' ' + number(y.low) + ' ' + number(y.high) + '\n';
  }
  return all;
}

// Colours that stay apart for colour-blind readers (Okabe and Ito), black for the two of ours.
const char* colour_of(method m) {
  switch (m) {
    case method::kvpop:
      return "#000000";
    case method::kvpop_mlp:
      return "#555555";
    case method::streaming:
      return "#d55e00";
    case method::tova:
      return "#0072b2";
    case method::h2o:
      return "#009e73";
    case method::snapkv:
      return "#cc79a7";
    case method::key_norm:
      return "#e69f00";
    case method::random:
      return "#56b4e9";
    case method::oracle:
      return "#a0a000";
    case method::full:
      break;
  }
  return "#999999";
}

// The distinct x of what is drawn, in ascending order.
std::vector<double> places_of(const eval_report& report) {
  std::vector<double> places;
  for (const eval_result& r : report.results) {
    if (r.name != method::full) places.push_back(x_of(r));
  }
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  return places;
}

// The x axis with its range: gnuplot warns where one place is all there is.
std::string x_axis(const eval_report& report) {
  const std::vector<double> places = places_of(report);
  const double least = places.front(), most = places.back();
  const bool by_compression =
      std::any_of(report.results.begin(), report.results.end(), [](const eval_result& r) { return r.compression; });
  std::string tics;
  for (const double place : places) tics += (tics.empty() ? "" : ", ") + number(place);
  if (by_compression)
    return "set xlabel 'compression of the KV cache, per cent'\nset xtics (" + tics + ")\nset xrange [" +
           number(least - 2) + ":" + number(most + 2) + "]\n";
  return "set xlabel 'KV entries a head'\nset xtics (" + tics + ")\nset logscale x 2\nset xrange [" +
         number(most * 1.1) + ":" + number(least / 1.1) + "]\n";
}

std::string axes(const eval_report& report) {
  std::string text = "set terminal svg size 860,520 enhanced font 'Helvetica,14' background '#ffffff'\n";
  text += "set key outside right top reverse Left noenhanced\nset grid ytics lc rgb '#dddddd'\nset border 3\n";
  text += "set tics nomirror\n";
  text += x_axis(report);
  if (has_answers(report)) {
    text += "set yrange [0:1.05<*]\nset ylabel 'answers kept, share of the full model''s'\n";
  } else {
    text += "set yrange [0:1e-9<*]\nset ylabel 'KL from the full model, nats'\n";
  }
  return text;
}

}  // namespace

std::string plot_script(const eval_report& report) {
  const std::vector<series> all = series_of(report);
  if (all.empty()) throw load_error("plot: no method but full was evaluated, so there is nothing to draw");
  std::string text = axes(report);
  for (std::size_t i = 0; i < all.size(); ++i) {
    text += "$data" + std::to_string(i) + " << EOD\n" + all[i].rows + "EOD\n";
  }
  text += "plot ";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string data = "$data" + std::to_string(i);
    const std::string style = std::string(" lc rgb '") + colour_of(all[i].name) + "' lw 2 pt 7 ps 0.6";
    text +=
        (i == 0 ? "" : ", ") + data + " using 1:2 with linespoints" + style + " title " + quoted(name_of(all[i].name));
    text += ", " + data + " using 1:2:3:4 with yerrorbars" + style + " notitle";
  }
  return text + '\n';
}

void plot_report(const eval_report& report, const std::string& path) { draw_svg(plot_script(report), path); }

}  // namespace qwen3
