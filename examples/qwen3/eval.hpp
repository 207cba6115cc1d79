#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap.hpp"           // ratio_estimate
#include "eval_data.hpp"           // eval_line
#include "kvpop/core/context.hpp"  // host_context
#include "method.hpp"              // method, method_settings, scorer_set
#include "model.hpp"               // model
#include "target.hpp"              // target_settings

namespace qwen3 {

/// A budget as it was asked for: entries a head, or a compression of each line's tokens.
struct budget_request {
  double value = 0;
  bool is_compression = false;
};

/// What `evaluate` is to do. `full` always runs, since the others are compared with it; it is reported when listed.
struct eval_request {
  std::vector<method> methods;
  std::vector<budget_request> budgets;
  std::int64_t chunk = 128;     // tokens a method takes at once, all methods in lockstep
  target_settings target = {};  // what the oracle goes by, and what `recall` compares with
};

/// One method under one budget, over all lines.
struct eval_result {
  method name = method::full;
  std::optional<double> compression;  // when that was asked for
  std::int64_t budget = 0;  // entries a head; with a compression the mean of the lines'; full: the longest line
  std::int64_t topk = 0;    // likewise
  std::int64_t answers = 0;
  std::int64_t correct = 0;
  std::optional<double> accuracy;           // empty when the data has no answers
  std::optional<ratio_estimate> retention;  // of the full model's answers; empty when it has none right
  // Over the positions from the budget on; empty when no line is that long.
  std::optional<ratio_estimate> kl;      // mean KL(full || method) of next tokens, nats, with a paired 95 % interval
  std::optional<double> agreement;       // share of positions with the same first choice
  std::optional<ratio_estimate> loss;    // mean -log p of the token that came next, nats
  std::optional<ratio_estimate> excess;  // of that, what is over the full model's loss at the same positions
  // Of the tokens that a KV head's topk places would go to by the true target, the share that is held when a line ends;
  // the mean over heads and lines, and by layer. Empty where sinks and window leave no place.
  std::optional<double> recall;
  std::vector<double> layer_recall;
  std::int64_t kv_bytes = 0;     // the most held at once for one line: keys, values, scorers' memory, all layers
  double tokens_per_second = 0;  // of this method's forward passes alone
};

struct eval_report {
  std::string model;
  std::string data;
  std::int64_t lines = 0;
  std::int64_t tokens = 0;
  std::int64_t answers = 0;
  std::int64_t full_correct = 0;
  std::vector<eval_result> results;  // method by method, budgets as they were given
};

/// Runs every method under every budget over the lines, through the same verbs as generation. Draws a progress bar on
/// stderr. Throws usage_error, before anything runs, when a budget is too small for a method on some line.
eval_report evaluate(const kvpop::host_context& ctx, const model& network, const scorer_set& scorers,
                     const method_settings& settings, const std::vector<eval_line>& lines, const eval_request& request);

}  // namespace qwen3
