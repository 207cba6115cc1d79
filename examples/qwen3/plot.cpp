#include "plot.hpp"

#include <algorithm>
#include <vector>

#include "chart.hpp"    // chart
#include "error.hpp"    // load_error
#include "gnuplot.hpp"  // draw_svg

namespace qwen3 {

namespace {

// One method's line: x, y and, where there are some, the ends of the interval.
struct series {
  method name;
  std::string rows;
};

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
    rows += chart_number(x_of(r)) + ' ';
    const ratio_estimate& y = answers ? *r.retention : *r.kl;
    rows += chart_number(y.value) + ' ' + chart_number(y.low) + ' ' + chart_number(y.high) + '\n';
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
  for (const double place : places) tics += (tics.empty() ? "" : ", ") + chart_number(place);
  if (by_compression)
    return "set xlabel 'compression of the KV cache, per cent'\nset xtics (" + tics + ")\nset xrange [" +
           chart_number(least - 2) + ":" + chart_number(most + 2) + "]\n";
  return "set xlabel 'KV entries a head'\nset xtics (" + tics + ")\nset logscale x 2\nset xrange [" +
         chart_number(most * 1.1) + ":" + chart_number(least / 1.1) + "]\n";
}

std::string axes(const eval_report& report) {
  return x_axis(report) + (has_answers(report)
                               ? "set yrange [0:1.05<*]\nset ylabel 'answers kept, share of the full model''s'\n"
                               : "set yrange [0:1e-9<*]\nset ylabel 'KL from the full model, nats'\n");
}

// Of each method, the result under the smallest budget that has a recall.
std::vector<const eval_result*> smallest_of(const eval_report& report) {
  std::vector<const eval_result*> smallest;
  for (const eval_result& r : report.results) {
    if (r.layer_recall.empty() || r.name == method::full) continue;
    if (smallest.empty() || smallest.back()->name != r.name) {
      smallest.push_back(&r);
    } else if (r.budget < smallest.back()->budget) {
      smallest.back() = &r;
    }
  }
  return smallest;
}

std::string style_of(method m) { return std::string(" lc rgb '") + colour_of(m) + "' lw 2 pt 7 ps 0.6"; }

}  // namespace

std::string plot_script(const eval_report& report) {
  const std::vector<series> all = series_of(report);
  if (all.empty()) throw load_error("plot: no method but full was evaluated, so there is nothing to draw");
  chart drawing(axes(report));
  for (const series& s : all) {
    const std::string data = drawing.data(s.rows), style = style_of(s.name);
    drawing.curve(data + " using 1:2 with linespoints" + style + " title " + chart_text(name_of(s.name)));
    drawing.curve(data + " using 1:2:3:4 with yerrorbars" + style + " notitle");
  }
  return drawing.script();
}

std::string layer_plot_script(const eval_report& report) {
  const std::vector<const eval_result*> all = smallest_of(report);
  if (all.empty()) throw load_error("plot: no method but full has a recall, so there is nothing to draw");
  chart drawing("set xlabel 'layer'\nset xtics 1\nset xrange [-0.5:" +
                chart_number(static_cast<double>(all.front()->layer_recall.size()) - 0.5) +
                "]\nset yrange [0:1.02]\nset ylabel 'recall of the tokens with the highest future attention'\n");
  for (const eval_result* r : all) {
    std::string rows;
    for (std::size_t layer = 0; layer < r->layer_recall.size(); ++layer)
      rows += std::to_string(layer) + ' ' + chart_number(r->layer_recall[layer]) + '\n';
    const std::string title = std::string(name_of(r->name)) + ", " + std::to_string(r->budget) + " entries";
    drawing.curve(drawing.data(rows) + " using 1:2 with linespoints" + style_of(r->name) + " title " +
                  chart_text(title));
  }
  return drawing.script();
}

void plot_report(const eval_report& report, const std::string& path) { draw_svg(plot_script(report), path); }

void plot_layers(const eval_report& report, const std::string& path) { draw_svg(layer_plot_script(report), path); }

}  // namespace qwen3
