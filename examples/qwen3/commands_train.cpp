#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <thread>

#include "commands.hpp"                // train_options, notebook_options
#include "console.hpp"                 // print, note
#include "error.hpp"                   // usage_error
#include "kvpop/core/thread_pool.hpp"  // thread_pool
#include "kvpop/score/charge.hpp"      // memory_charge
#include "method.hpp"                  // check_range, check_compression, entries_at
#include "notebook_data.hpp"           // make_notebook
#include "output_file.hpp"             // check_writable
#include "train.hpp"                   // train
#include "train_plot.hpp"              // plot_training

namespace qwen3 {

namespace {

scorer_plan plan_of(const train_options& o, const model_shape& shape) {
  scorer_plan plan;
  if (o.scorer != "kvpop" && o.scorer != "kvpop-mlp")
    throw usage_error("--scorer is " + in_quotes(o.scorer) + "; it must be kvpop or kvpop-mlp");
  plan.kind = o.scorer == "kvpop" ? kvpop::scorer_kind::mlstm : kvpop::scorer_kind::mlp;
  plan.layers = shape.layers, plan.kv_heads = shape.kv_heads, plan.head_dim = shape.head_dim;
  if (o.state.size() != 2) throw usage_error("--state needs two numbers, dk,dv");
  plan.hidden = o.hidden, plan.dk = o.state[0], plan.dv = o.state[1];
  plan.sinks = o.sinks, plan.window = o.window, plan.delay = o.delay.value_or(o.window);
  plan.decay = !o.no_decay;
  check_range("--hidden", plan.hidden, 1, 4096);
  check_range("--state", plan.dk, 1, 1024);
  check_range("--state", plan.dv, 1, 1024);
  check_range("--sinks", plan.sinks, 0, std::int64_t{1} << 30);
  check_range("--window", plan.window, 1, std::int64_t{1} << 30);
  check_range("--delay", plan.delay, 0, plan.window);
  if (o.length < 2 * plan.window)
    throw usage_error("--seq is " + std::to_string(o.length) + "; it must be at least two windows, " +
                      std::to_string(2 * plan.window));
  return plan;
}

// The long-range places that the scorer is trained for, and says so.
std::int64_t topk_of(const train_options& o, const scorer_plan& plan) {
  const double compression = o.compression.value_or(88);
  check_compression(compression);
  const std::int64_t entries = o.budget.value_or(entries_at(compression, o.length));
  const std::int64_t charge = kvpop::memory_charge(plan.memory_size(), plan.inputs() * 4);
  const std::int64_t topk = entries - plan.sinks - plan.window - charge;
  const std::string sum = std::to_string(plan.sinks) + " sinks + " + std::to_string(plan.window) + " window + " +
                          std::to_string(charge) + " for the scorer's memory";
  if (topk < 1)
    throw usage_error("a budget of " + std::to_string(entries) + " entries a head leaves no long-range place: " + sum);
  note("train: for " + std::to_string(entries) + " entries a head = " + sum + " + " + std::to_string(topk) +
       " long-range");
  return topk;
}

train_settings settings_of(const train_options& o, const model_shape& shape) {
  train_settings s;
  s.plan = plan_of(o, shape);
  const auto topk = static_cast<double>(topk_of(o, s.plan));
  if (!(o.spread >= 1)) throw usage_error("--spread is " + std::to_string(o.spread) + "; it must be at least 1");
  s.loss.least_topk = std::max<std::int64_t>(1, std::llround(topk / o.spread));
  s.loss.most_topk = std::llround(topk * o.spread);
  s.loss.loss = score_loss_of(o.loss);
  s.loss.target = target_of(o.target);
  s.loss.lse = lse_source_of(o.lse);
  if (o.aggregate != "max" && o.aggregate != "mean")
    throw usage_error("--aggregate is " + in_quotes(o.aggregate) + "; it must be max or mean");
  if (o.aggregate == "mean") s.loss.target.over_group = kvpop::group_aggregate::mean;
  s.loss.samples = o.samples;
  s.loss.boundary.tau = o.tau;
  s.loss.boundary.balance = !o.no_balance;
  s.loss.boundary.margin_weights = o.margins;
  s.loss.seed = o.seed;
  s.rate.peak = o.rate;
  s.rate.steps = o.steps;
  s.rate.warmup = o.warmup.value_or(o.steps / 10);
  s.rate.shape = o.constant_rate ? kvpop::schedule_shape::constant : kvpop::schedule_shape::cosine;
  s.length = o.length, s.batch = o.batch, s.seed = o.seed;
  return s;
}

}  // namespace

int run_train(const train_options& o) {
  for (const std::string* path : {&o.output, &o.plot}) check_writable(*path);
  const model network = model::open(o.model, rope_precision_of(o.rope_dtype));
  const train_settings settings = settings_of(o, network.shape());
  kvpop::thread_pool pool(threads_of(o.threads));
  const tokenizer words = tokenizer::load(o.model);
  const std::int64_t least = 2 * settings.plan.window;
  const training_texts texts = training_texts::read(o.data, words, least);
  if (texts.left_out() > 0)
    note("train: " + std::to_string(texts.left_out()) + " documents shorter than two windows were left out");
  std::optional<training_texts> valid;
  if (!o.valid.empty()) valid = training_texts::read({o.valid}, words, least);
  train_files files;
  files.output = o.output, files.resume = o.resume, files.log = o.log;
  files.eval_every = o.eval_every > 0 ? o.eval_every : valid ? std::max<std::int64_t>(o.steps / 10, 1) : 0;
  if (!o.plot.empty() && o.log.empty()) files.log = o.plot + ".jsonl";
  const train_result result = train(pool.context(), network, settings, texts, valid ? &*valid : nullptr, files);
  if (!o.plot.empty()) plot_training(files.log, o.plot);
  if (result.interrupted) {
    note("train: interrupted after step " + std::to_string(result.steps) + "; --resume goes on from " + o.output +
         ".checkpoint");
    return 1;
  }
  std::array<char, 256> line{};
  std::snprintf(line.data(), line.size(),
                "%s: %lld steps in %.0f s; loss %.4f, boundary accuracy %.3f, recall %.3f over the last tenth; "
                "dense forward %.0f %% of the time\n",
                o.output.c_str(), static_cast<long long>(result.steps), result.seconds, result.last.mean_loss(),
                result.last.accuracy(), result.last.mean_recall(), 100 * result.forward_share);
  print(line.data());
  return 0;
}

int run_notebook(const notebook_options& o) {
  notebook_settings settings{o.tokens, o.records, o.questions, o.kept, o.gap};
  for (std::int64_t i = 0; i < o.sequences; ++i)
    print(notebook_line(make_notebook(settings, o.seed, static_cast<std::uint64_t>(i))));
  return 0;
}

}  // namespace qwen3
