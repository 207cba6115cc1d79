#include "qwen3/train_plot.hpp"

#include <doctest/doctest.h>

#include <string>

#include "files.hpp"        // temporary_directory, read_file, write_file
#include "qwen3/error.hpp"  // load_error

using namespace qwen3_test;

TEST_CASE("a training's log is drawn, looks at held-out text as points") {
  const temporary_directory directory;
  const std::string log = directory / "log.jsonl", svg = directory / "t.svg";
  write_file(log,
             R"({"step":1,"loss":0.7,"accuracy":0.5,"recall":0.2}
{"step":2,"loss":0.6,"accuracy":0.6,"recall":0.3}
)");
  qwen3::plot_training(log, svg);
  CHECK(read_file(svg).find("boundary accuracy") != std::string::npos);
  CHECK(read_file(svg).find("held out") == std::string::npos);
  write_file(log, read_file(log) + R"({"step":2,"valid_loss":0.65,"valid_accuracy":0.55,"valid_recall":0.25})" + "\n");
  qwen3::plot_training(log, svg);
  CHECK(read_file(svg).find("loss, held out") != std::string::npos);
}

TEST_CASE("a log with no step, or with a line that is no JSON, is refused") {
  const temporary_directory directory;
  const std::string log = directory / "log.jsonl", svg = directory / "t.svg";
  write_file(log, "");
  CHECK_THROWS_WITH_AS(qwen3::plot_training(log, svg), (log + ": no step to draw").c_str(), qwen3::load_error);
  write_file(log, "{\"step\": 1\n");
  CHECK_THROWS_AS(qwen3::plot_training(log, svg), qwen3::load_error);
  CHECK(entries_of(directory.path()) == 1);
}
