#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kvpop/core/context.hpp"    // host_context
#include "kvpop/train/adamw.hpp"     // adamw_options
#include "kvpop/train/schedule.hpp"  // schedule
#include "model.hpp"                 // model
#include "train_batch.hpp"           // loss_settings, batch_metrics
#include "train_data.hpp"            // training_texts
#include "trainable_scorer.hpp"      // scorer_plan

namespace qwen3 {

/// Everything that decides what a training computes.
struct train_settings {
  scorer_plan plan;
  loss_settings loss;
  kvpop::schedule rate;
  kvpop::adamw_options optimiser;
  double clip = 1.0;           // of the norm of all gradients
  std::int64_t length = 1024;  // tokens of a row
  std::int64_t batch = 4;      // rows a step
  std::uint64_t seed = 1;
};

/// Where a training writes and how often.
struct train_files {
  std::string output;  // the scorer file; the checkpoint is beside it, with .checkpoint added
  bool resume = false;
  std::string log;  // a JSON object a line; empty: none
  std::int64_t eval_every = 0;
  std::int64_t checkpoint_every = 50;
  std::function<void(std::int64_t step)> after_step;  // called after each; may be empty
};

/// How a training ended.
struct train_result {
  std::int64_t steps = 0;
  bool interrupted = false;
  batch_metrics last;                  // over the last tenth of the steps
  std::optional<batch_metrics> valid;  // at the end
  double seconds = 0;                  // of this run's steps
  double forward_share = 0;            // of them, the dense forward
};

/// Trains a scorer for a model whose weights stay as they are: a dense forward a row, targets and comparisons of every layer
/// from it, all layers' scorers at once (docs/method.md sections 5 and 6).
///
/// Says on stderr what memory it takes before it starts, then how it goes: a line every few seconds, to `log` a line a step.
/// With --resume it goes on from the checkpoint bit for bit. An interrupt (Ctrl-C) ends it after the step at hand, with a
/// checkpoint. A loss or gradient that is not finite throws load_error naming step, layer and head, and leaves the
/// checkpoint of the step before.
train_result train(const kvpop::host_context& ctx, const model& network, const train_settings& settings,
                   const training_texts& texts, const training_texts* valid, const train_files& files);

}  // namespace qwen3
