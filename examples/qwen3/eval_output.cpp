#include "eval_output.hpp"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace qwen3 {

namespace {

template <class... Args>
std::string text(const char* format, Args... args) {
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(), format, args...);
  return line.data();
}

std::string number_or_dash(const std::optional<double>& value, const char* format) {
  return value ? text(format, *value) : "-";
}

// A value and its interval; of a single line there is no interval.
std::string interval_text(const std::optional<ratio_estimate>& r, int digits, std::int64_t lines) {
  if (!r) return "-";
  if (lines < 2) return text("%.*f", digits, r->value);
  return text("%.*f [%.*f, %.*f]", digits, r->value, digits, r->low, digits, r->high);
}

std::string value_text(const std::optional<ratio_estimate>& r) { return r ? text("%.4f", r->value) : "-"; }

std::string budget_text(const eval_result& r) {
  if (r.name == method::full) return "all";
  const std::string entries = std::to_string(r.budget);
  return r.compression ? text("%g %% = ", *r.compression) + entries : entries;
}

nlohmann::ordered_json part(const std::optional<ratio_estimate>& r, double ratio_estimate::*member) {
  return r ? nlohmann::ordered_json((*r).*member) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string eval_table(const eval_report& report) {
  std::string table =
      text("%lld lines, %lld tokens, ", static_cast<long long>(report.lines), static_cast<long long>(report.tokens));
  table += report.answers == 0
               ? "no answers\n\n"
               : text("%lld answers, of which the full model has %lld right\n\n",
                      static_cast<long long>(report.answers), static_cast<long long>(report.full_correct));
  table += text("%-10s %12s %6s %11s %8s %22s %26s %6s %7s %7s %6s %10s %9s\n", "method", "budget", "topk", "right",
                "accuracy", "retention [95 %]", "KL [95 %]", "agree", "loss", "excess", "recall", "KV KiB", "tokens/s");
  for (const eval_result& r : report.results) {
    const std::string right = r.answers == 0 ? "-" : std::to_string(r.correct) + "/" + std::to_string(r.answers);
    table += text("%-10s %12s %6lld %11s %8s %22s %26s %6s %7s %7s %6s %10.1f %9.0f\n", name_of(r.name),
                  budget_text(r).c_str(), static_cast<long long>(r.topk), right.c_str(),
                  number_or_dash(r.accuracy, "%.3f").c_str(), interval_text(r.retention, 3, report.lines).c_str(),
                  interval_text(r.kl, 5, report.lines).c_str(), number_or_dash(r.agreement, "%.3f").c_str(),
                  value_text(r.loss).c_str(), value_text(r.excess).c_str(), number_or_dash(r.recall, "%.3f").c_str(),
                  static_cast<double>(r.kv_bytes) / 1024, r.tokens_per_second);
  }
  return table +
         "\nbudget in KV entries a head; KL (nats), agreement and loss of the next token over the positions from the "
         "budget on;\nexcess: of the loss, what is over the full model's at the same positions; recall: when a line "
         "ends, the share held of the tokens\nthat its later part attended to most;\nKV "
         "KiB: the most held at once for a line, all layers, scorers' memory included\n";
}

std::string recall_table(const eval_report& report) {
  std::string table = "\nrecall by layer\n";
  for (const eval_result& r : report.results) {
    if (r.layer_recall.empty()) continue;
    table += text("%-10s %12s ", name_of(r.name), budget_text(r).c_str());
    for (const double share : r.layer_recall) table += text(" %.2f", share);
    table += '\n';
  }
  return table;
}

std::string eval_json(const eval_report& report) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const eval_result& r : report.results) {
    results.push_back({{"method", name_of(r.name)},
                       {"budget", r.budget},
                       {"topk", r.topk},
                       {"answers", r.answers},
                       {"correct", r.correct},
                       {"accuracy", or_null(r.accuracy)},
                       {"retention", part(r.retention, &ratio_estimate::value)},
                       {"retention_low", part(r.retention, &ratio_estimate::low)},
                       {"retention_high", part(r.retention, &ratio_estimate::high)},
                       {"kl", part(r.kl, &ratio_estimate::value)},
                       {"agreement", or_null(r.agreement)},
                       {"kv_bytes", r.kv_bytes},
                       {"tokens_per_second", r.tokens_per_second},
                       {"kl_low", part(r.kl, &ratio_estimate::low)},
                       {"kl_high", part(r.kl, &ratio_estimate::high)},
                       {"loss", part(r.loss, &ratio_estimate::value)},
                       {"excess", part(r.excess, &ratio_estimate::value)},
                       {"excess_low", part(r.excess, &ratio_estimate::low)},
                       {"excess_high", part(r.excess, &ratio_estimate::high)},
                       {"recall", or_null(r.recall)},
                       {"layer_recall", r.layer_recall}});
  }
  const nlohmann::ordered_json document{{"model", report.model},
                                        {"data", report.data},
                                        {"lines", report.lines},
                                        {"tokens", report.tokens},
                                        {"results", results}};
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace qwen3
