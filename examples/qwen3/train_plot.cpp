#include "train_plot.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

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
  std::array<char, 128> row{};
  std::snprintf(row.data(), row.size(), "%.9g %.9g %.9g %.9g\n", step, loss, accuracy, recall);
  to += row.data();
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
  std::string script = "set terminal svg size 860,520 enhanced font 'Helvetica,14' background '#ffffff'\n";
  script += "set key outside right top reverse Left noenhanced\nset grid ytics lc rgb '#dddddd'\nset border 11\n";
  script += "set tics nomirror\nset xlabel 'step'\nset ylabel 'loss'\nset y2label 'share'\nset ytics\nset y2tics\n";
  script += "set yrange [0:*]\nset y2range [0:1]\n$train << EOD\n" + c.training + "EOD\n";
  if (!c.held_out.empty()) script += "$valid << EOD\n" + c.held_out + "EOD\n";
  script += "plot $train using 1:2 with lines lw 2 lc rgb '#000000' title 'loss'";
  script += ", $train using 1:3 axes x1y2 with lines lw 2 lc rgb '#0072b2' title 'boundary accuracy'";
  script += ", $train using 1:4 axes x1y2 with lines lw 2 lc rgb '#d55e00' title 'recall of the top k'";
  if (!c.held_out.empty()) {
    script += ", $valid using 1:2 with points pt 7 ps 0.7 lc rgb '#000000' title 'loss, held out'";
    script += ", $valid using 1:3 axes x1y2 with points pt 7 ps 0.7 lc rgb '#0072b2' title 'accuracy, held out'";
    script += ", $valid using 1:4 axes x1y2 with points pt 7 ps 0.7 lc rgb '#d55e00' title 'recall, held out'";
  }
  draw_svg(script + "\n", path);
}

}  // namespace qwen3
