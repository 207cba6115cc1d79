#include "qwen3/train.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "files.hpp"                    // temporary_directory, message_of
#include "kvpop/score/scorer_file.hpp"  // load_scorer
#include "qwen3/error.hpp"              // load_error
#include "qwen3/notebook_data.hpp"      // make_notebook
#include "run_support.hpp"              // notebook

namespace {

using namespace qwen3_test;

struct course {
  temporary_directory directory;
  qwen3::model network = qwen3::model::open(notebook);
  qwen3::train_settings settings;
  qwen3::training_texts texts;

  course() {
    std::string text;
    for (std::uint64_t i = 0; i < 12; ++i) text += qwen3::notebook_line(qwen3::make_notebook({.tokens = 200}, 5, i));
    write_file(directory / "t.jsonl", text);
    texts = qwen3::training_texts::read({directory / "t.jsonl"}, qwen3::tokenizer::load(notebook), 32);
    settings.plan = {.kind = kvpop::scorer_kind::mlstm,
                     .layers = 4,
                     .kv_heads = 2,
                     .head_dim = 64,
                     .dk = 4,
                     .dv = 4,
                     .sinks = 2,
                     .window = 16,
                     .delay = 16};
    settings.loss.least_topk = 8, settings.loss.most_topk = 24;
    settings.rate = {.peak = 1e-2, .warmup = 2, .steps = 6};
    settings.length = 256, settings.batch = 2;
  }

  qwen3::train_result run(const std::string& name, bool resume = false,
                          const std::function<void(std::int64_t)>& after_step = {}) {
    qwen3::train_files files;
    files.output = directory / name;
    files.resume = resume;
    files.log = directory / "log.jsonl";
    files.checkpoint_every = 2;
    files.eval_every = 3;
    files.after_step = after_step;
    return qwen3::train({}, network, settings, texts, &texts, files);
  }
};

std::vector<nlohmann::json> log_of(const course& c) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(c.directory / "log.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("a training ends with a scorer file that loads, and a log of what happened") {
  course c;
  c.settings.rate.steps = 30;
  const auto result = c.run("s.safetensors");
  CHECK(result.steps == 30);
  CHECK_FALSE(result.interrupted);
  REQUIRE(result.valid.has_value());
  const kvpop::scorer_file file = kvpop::load_scorer(c.directory / "s.safetensors");
  file.check_model(4, 2, 64, 64);
  CHECK(file.description().trained_topk == 14);  // the geometric mean of 8 and 24
  const auto log = log_of(c);
  double first = 0, last = 0;
  std::vector<double> held_out;
  for (const auto& line : log) {
    if (line.contains("valid_loss")) {
      held_out.push_back(line["valid_loss"]);
      CHECK(line["valid_layer_recall"].size() == 4);
    } else if (line["step"] <= 5) {
      first += line["loss"].get<double>();
    } else if (line["step"] > 25) {
      last += line["loss"].get<double>();
    }
  }
  CHECK(held_out.size() == 10);
  CHECK(last < 0.95 * first);  // it learns
  CHECK(held_out.back() < held_out.front());
}

TEST_CASE("a training that is interrupted leaves a checkpoint, and goes on from it bit for bit") {
  course whole, halves;
  whole.run("s.safetensors");
  const auto stopped = halves.run("s.safetensors", false, [](std::int64_t step) {
    if (step == 3) std::raise(SIGINT);
  });
  CHECK(stopped.interrupted);
  CHECK(stopped.steps == 3);
  CHECK(entries_of(halves.directory.path()) == 3);  // data, log, checkpoint: no scorer file yet
  const auto ended = halves.run("s.safetensors", true);
  CHECK_FALSE(ended.interrupted);
  CHECK(read_file(halves.directory / "s.safetensors") == read_file(whole.directory / "s.safetensors"));
  CHECK(read_file(halves.directory / "s.safetensors.checkpoint") ==
        read_file(whole.directory / "s.safetensors.checkpoint"));
  std::vector<std::int64_t> steps;  // the log goes on too
  for (const auto& line : log_of(halves))
    if (line.contains("loss")) steps.push_back(line["step"]);
  CHECK(steps == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("going on with other settings is refused by name, and so is going on from nothing") {
  course c;
  CHECK(message_of<qwen3::load_error>([&] { c.run("s.safetensors", true); }).find("s.safetensors.checkpoint") !=
        std::string::npos);
  c.run("s.safetensors");
  c.settings.batch = 3;
  CHECK(message_of<qwen3::load_error>([&] {
          c.run("s.safetensors", true);
        }).find("\"batch=2\" there, \"batch=3\" now") != std::string::npos);
}

TEST_CASE("a loss that is not finite stops the training, says where, and leaves the last good state") {
  course c;
  c.settings.rate.peak = 1e30, c.settings.rate.warmup = 0, c.settings.clip = 0;
  const std::string message = message_of<qwen3::load_error>([&] { c.run("s.safetensors"); });
  CAPTURE(message);
  CHECK(message.find("is not finite at step 2") != std::string::npos);
  CHECK(message.find("layer 0, KV head 0") != std::string::npos);
  CHECK(message.find("the last good state, of step 1, is in " + c.directory / "s.safetensors.checkpoint") !=
        std::string::npos);
  CHECK(entries_of(c.directory.path()) == 3);
}
