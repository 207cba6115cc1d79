#pragma once

#include <string>

#include "eval.hpp"  // eval_report

namespace qwen3 {

/// The table that a person reads: a line for each method and budget.
std::string eval_table(const eval_report& report);

/// The recall of every layer, a line for each method and budget.
std::string recall_table(const eval_report& report);

/// The report as JSON: {"model", "data", "lines", "tokens", "results": [{"method", "budget", "topk", "answers", "correct",
/// "accuracy", "retention", "retention_low", "retention_high", "kl", "agreement", "kv_bytes", "tokens_per_second", "kl_low",
/// "kl_high", "loss", "recall", "layer_recall"}]};
/// null where there is nothing to tell.
std::string eval_json(const eval_report& report);

}  // namespace qwen3
