#include "eval.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "distribution.hpp"  // reference_distributions
#include "error.hpp"         // usage_error
#include "kv_cache.hpp"      // make_kv_cache
#include "line_future.hpp"   // line_future
#include "progress.hpp"      // progress_bar

namespace qwen3 {

namespace {

using seconds = std::chrono::duration<double>;
using std::chrono::steady_clock;

// What one method under one budget adds up to.
struct run {
  method name = method::full;
  budget_request asked;
  std::vector<method_plan> plans;  // [lines]
  std::vector<double> correct;     // [lines]
  std::vector<double> kl, loss;    // [lines] sums over the positions from the budget on
  std::vector<double> excess;      // [lines] of loss, what is over the full model's
  std::vector<double> compared;    // [lines] those positions
  std::vector<double> predicted;   // [lines] of them, those that a token follows
  std::int64_t agreed = 0;
  std::vector<double> layer_recall;  // [layers] sums over lines of the mean over heads
  std::int64_t recalled = 0;         // lines in them
  std::int64_t peak_bytes = 0;
  std::int64_t tokens = 0;
  seconds time{};

  // Of the line that is being run:
  std::unique_ptr<kv_cache> cache;
  death_record deaths;     // the oracle's
  std::vector<char> hits;  // [tokens] whether the token was the first choice given everything before it
};

std::int64_t token_count(const eval_line& line) { return static_cast<std::int64_t>(line.tokens.size()); }

class evaluation {
 public:
  evaluation(const kvpop::host_context& ctx, const model& network, const scorer_set& scorers,
             const method_settings& settings, const std::vector<eval_line>& lines, const eval_request& request)
      : ctx_(ctx), model_(network), scorers_(scorers), settings_(settings), lines_(lines), request_(request) {
    add_run(method::full, {});
    for (const method m : request.methods) {
      if (m == method::full) continue;
      for (const budget_request& budget : request.budgets) add_run(m, budget);
    }
  }

  eval_report run_all() {
    std::int64_t work = 0;
    for (const eval_line& line : lines_) work += token_count(line) * static_cast<std::int64_t>(runs_.size());
    progress_bar bar("eval", work);
    for (std::size_t i = 0; i < lines_.size(); ++i) run_line(i, bar);
    return report();
  }

 private:
  void add_run(method m, const budget_request& budget) {
    run r;
    r.name = m;
    r.asked = budget;
    for (auto* sums : {&r.correct, &r.kl, &r.loss, &r.excess, &r.compared, &r.predicted}) sums->resize(lines_.size());
    r.layer_recall.resize(static_cast<std::size_t>(model_.config().layers));
    for (const eval_line& line : lines_) r.plans.push_back(plan(m, budget, line));
    runs_.push_back(std::move(r));
  }

  method_plan plan(method m, const budget_request& budget, const eval_line& line) const {
    std::int64_t entries = token_count(line);
    if (m != method::full) {
      entries = budget.is_compression ? entries_at(budget.value, entries) : std::llround(budget.value);
    }
    try {
      return plan_method(m, entries, settings_, scorers_, model_.shape());
    } catch (const usage_error& error) {
      if (m == method::full || !budget.is_compression) throw;
      throw usage_error("line " + std::to_string(line.number) + " with " + std::to_string(token_count(line)) +
                        " tokens: " + error.what());
    }
  }

  void run_line(std::size_t index, progress_bar& bar) {
    const eval_line& line = lines_[index];
    future_.look(ctx_, model_, line.tokens, window(), request_.target);
    for (run& r : runs_) {
      if (r.name == method::oracle) r.deaths = future_.deaths(r.plans[index].limits);
      r.cache = make_kv_cache(model_.config(), scorers_,
                              {.plan = r.plans[index],
                               .dtype = settings_.dtype,
                               .seed = settings_.seed,
                               .prompt = line.prompt(),
                               .replay = r.name == method::oracle ? &r.deaths : nullptr});
      r.hits.assign(line.tokens.size(), 0);
    }
    // A chunk also ends where the prompt does.
    const std::int64_t all = token_count(line), prompt = line.prompt();
    for (std::int64_t begin = 0; begin < all;) {
      std::int64_t end = std::min(all, begin + request_.chunk);
      if (begin < prompt) end = std::min(end, prompt);
      run_chunk(index, begin, end, end == prompt, bar);
      begin = end;
    }
    for (run& r : runs_) {
      for (const token_range& answer : line.answers) {
        const auto hits = r.hits.begin();
        r.correct[index] += std::all_of(hits + answer.first, hits + answer.last, [](char hit) { return hit != 0; });
      }
      note_recall(r, index);
      r.cache.reset();
    }
  }

  // Sinks, window and places that a token-wise budget of these entries would have: what recall is measured in.
  std::optional<kvpop::budget> places(std::int64_t entries) const {
    try {
      return plan_method(method::oracle, entries, settings_, scorers_, model_.shape()).limits;
    } catch (const usage_error&) {
      return std::nullopt;
    }
  }
  std::int64_t window() const { return places(std::int64_t{1} << 30)->window; }

  void note_recall(run& r, std::size_t index) {
    const auto limits = places(r.plans[index].entries);
    if (!limits) return;
    const std::vector<double> recall = future_.recall(*r.cache, *limits);
    if (recall.empty()) return;
    for (std::size_t layer = 0; layer < recall.size(); ++layer) r.layer_recall[layer] += recall[layer];
    ++r.recalled;
  }

  void run_chunk(std::size_t index, std::int64_t begin, std::int64_t end, bool ends_prompt, progress_bar& bar) {
    const std::int64_t rows = end - begin;
    const auto tokens =
        std::span(lines_[index].tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows));
    const std::span<const std::int32_t> line = lines_[index].tokens;
    next_.assign(static_cast<std::size_t>(rows), -1);
    for (std::size_t i = 0; i < next_.size(); ++i) {
      const std::size_t next = static_cast<std::size_t>(begin) + i + 1;
      if (next < line.size()) next_[i] = line[next];
    }
    kl_.resize(static_cast<std::size_t>(rows));
    losses_.assign(static_cast<std::size_t>(rows), 0.0);
    choices_.resize(static_cast<std::size_t>(rows));
    for (run& r : runs_) {
      const bool full = r.name == method::full;
      logits_.resize(static_cast<std::size_t>(rows * model_.config().vocabulary));
      const auto started = steady_clock::now();
      model_.forward(ctx_, tokens, *r.cache, activations_, rows, logits_.data());
      r.peak_bytes = std::max(r.peak_bytes, r.cache->held_bytes());
      if (ends_prompt) r.cache->end_prompt(ctx_);
      r.time += steady_clock::now() - started;
      r.tokens += rows;
      if (full) {
        full_.set(ctx_, logits_, rows, model_.config().vocabulary);
        for (std::int64_t i = 0; i < rows; ++i) {
          const auto at = static_cast<std::size_t>(i);
          choices_[at] = full_.choice(i);
          if (next_[at] >= 0) losses_[at] = full_.loss(i, next_[at]);
        }
        std::fill(kl_.begin(), kl_.end(), 0.0);
        full_losses_ = losses_;
      } else {
        full_.compare(ctx_, logits_.data(), next_.data(), kl_.data(), losses_.data(), choices_.data());
      }
      count(r, index, begin);
      bar.advance(rows);
    }
  }

  // Adds up what the chunk that begins at a position gave.
  void count(run& r, std::size_t index, std::int64_t begin) {
    const eval_line& line = lines_[index];
    const std::int64_t from = r.name == method::full ? 0 : r.plans[index].entries;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const std::int64_t position = begin + static_cast<std::int64_t>(i);
      const auto next = static_cast<std::size_t>(position) + 1;
      if (next < line.tokens.size()) r.hits[next] = choices_[i] == line.tokens[next];
      if (position < from) continue;
      r.compared[index] += 1;
      r.kl[index] += kl_[i];
      r.loss[index] += losses_[i];
      r.excess[index] += losses_[i] - full_losses_[i];
      r.predicted[index] += next_[i] >= 0;
      r.agreed += choices_[i] == full_.choice(static_cast<std::int64_t>(i));
    }
  }

  eval_report report() const {
    eval_report result;
    result.lines = static_cast<std::int64_t>(lines_.size());
    for (const eval_line& line : lines_) {
      result.tokens += token_count(line);
      result.answers += static_cast<std::int64_t>(line.answers.size());
    }
    const run& full = runs_.front();
    for (const double n : full.correct) result.full_correct += std::llround(n);
    for (const method m : request_.methods) {
      for (const run& r : runs_) {
        if (r.name == m) result.results.push_back(result_of(r, full, result.answers));
      }
    }
    return result;
  }

  static eval_result result_of(const run& r, const run& full, std::int64_t answers) {
    eval_result result;
    result.name = r.name;
    if (r.asked.is_compression) result.compression = r.asked.value;
    double entries = 0, topk = 0;
    for (const method_plan& plan : r.plans) {
      entries += static_cast<double>(plan.entries) / static_cast<double>(r.plans.size());
      topk += static_cast<double>(plan.limits.topk) / static_cast<double>(r.plans.size());
      if (r.name == method::full) result.budget = std::max(result.budget, plan.entries);
    }
    if (r.name != method::full) result.budget = std::llround(entries);
    result.topk = std::llround(topk);
    result.answers = answers;
    for (const double n : r.correct) result.correct += std::llround(n);
    if (answers > 0) result.accuracy = static_cast<double>(result.correct) / static_cast<double>(answers);
    result.retention = paired_ratio(r.correct, full.correct);
    result.kl = paired_ratio(r.kl, r.compared);
    result.loss = paired_ratio(r.loss, r.predicted);
    result.excess = paired_ratio(r.excess, r.predicted);
    const double compared = std::accumulate(r.compared.begin(), r.compared.end(), 0.0);
    if (compared > 0) result.agreement = static_cast<double>(r.agreed) / compared;
    if (r.recalled > 0) {
      for (const double sum : r.layer_recall) result.layer_recall.push_back(sum / static_cast<double>(r.recalled));
      result.recall = std::accumulate(result.layer_recall.begin(), result.layer_recall.end(), 0.0) /
                      static_cast<double>(result.layer_recall.size());
    }
    result.kv_bytes = r.peak_bytes;
    result.tokens_per_second = static_cast<double>(r.tokens) / std::max(r.time.count(), 1e-9);
    return result;
  }

  const kvpop::host_context& ctx_;
  const model& model_;
  const scorer_set& scorers_;
  const method_settings& settings_;
  const std::vector<eval_line>& lines_;
  const eval_request& request_;
  std::vector<run> runs_;  // the full model's first

  activations activations_;
  std::vector<float> logits_;  // [rows, vocabulary] of the chunk and the method at hand
  reference_distributions full_;
  line_future future_;
  std::vector<std::int32_t> next_;                 // [rows] the token that comes next, -1 after the last
  std::vector<double> kl_, losses_, full_losses_;  // [rows]
  std::vector<std::int64_t> choices_;              // [rows]
};

}  // namespace

eval_report evaluate(const kvpop::host_context& ctx, const model& network, const scorer_set& scorers,
                     const method_settings& settings, const std::vector<eval_line>& lines,
                     const eval_request& request) {
  return evaluation(ctx, network, scorers, settings, lines, request).run_all();
}

}  // namespace qwen3
