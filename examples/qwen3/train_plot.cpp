#include "train_plot.hpp"

#include <nlohmann/json.hpp>

#include "chart.hpp"        // chart
#include "error.hpp"        // load_error
#include "gnuplot.hpp"      // draw_svg
#include "json_file.hpp"    // parse_json_object
#include "line_reader.hpp"  // line_reader

namespace qwen3 {

namespace {

// Rows `step loss accuracy recall` for gnuplot.
struct curves {
  std::string training, held_out;
};

void add_row(std::string& to, double step, double loss, double accuracy, double recall) {
  to +=
      chart_number(step) + ' ' + chart_number(loss) + ' ' + chart_number(accuracy) + ' ' + chart_number(recall) + '\n';
}

curves read(const std::string& log) {
  curves result;
  bool first = true;
  double loss = 0, accuracy = 0, recall = 0;
  for (line_reader file(log); file.next();) {
    const nlohmann::json line = parse_json_object(file.line(), file.place());
    const double step = line.value("step", 0.0);
    if (line.contains("valid_loss")) {
      add_row(result.held_out, step, line.value("valid_loss", 0.0), line.value("valid_accuracy", 0.0),
              line.value("valid_recall", 0.0));
      continue;
    }
    const double share = first ? 1.0 : 0.1;  // running means: single batches are noisy
    loss += share * (line.value("loss", 0.0) - loss);
    accuracy += share * (line.value("accuracy", 0.0) - accuracy);
    recall += share * (line.value("recall", 0.0) - recall);
    add_row(result.training, step, loss, accuracy, recall);
    first = false;
  }
  if (first) throw load_error(log + ": no step to draw");
  return result;
}

}  // namespace

void plot_training(const std::string& log, const std::string& path) {
  const curves c = read(log);
  chart drawing(
      "set border 11\nset xlabel 'step'\nset ylabel 'loss'\nset y2label 'share'\nset ytics\nset y2tics\nset yrange "
      "[0:*]\n"
      "set y2range [0:1]\n");
  const auto add = [&](const std::string& rows, const std::string& style, const std::string& suffix) {
    const std::string data = drawing.data(rows);
    drawing.curve(data + " using 1:2 " + style + " lc rgb '#000000' title 'loss" + suffix + "'");
    drawing.curve(data + " using 1:3 axes x1y2 " + style + " lc rgb '#0072b2' title 'boundary accuracy" + suffix + "'");
    drawing.curve(data + " using 1:4 axes x1y2 " + style + " lc rgb '#d55e00' title 'recall of the top k" + suffix +
                  "'");
  };
  add(c.training, "with lines lw 2", "");
  if (!c.held_out.empty()) add(c.held_out, "with points pt 7 ps 0.7", ", held out");
  draw_svg(drawing.script(), path);
}

}  // namespace qwen3
