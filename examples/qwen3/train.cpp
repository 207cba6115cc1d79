#include "train.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "console.hpp"           // note
#include "error.hpp"             // load_error
#include "train_checkpoint.hpp"  // train_state, save_checkpoint, load_checkpoint

namespace qwen3 {

namespace {

using clock = std::chrono::steady_clock;

volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

// While it lives, the first Ctrl-C only sets a flag; a second one ends the program.
class interrupt_guard {
 public:
  interrupt_guard() : before_(std::signal(SIGINT, on_interrupt)) { interrupted = 0; }
  interrupt_guard(const interrupt_guard&) = delete;
  interrupt_guard& operator=(const interrupt_guard&) = delete;
  ~interrupt_guard() { std::signal(SIGINT, before_); }

 private:
  void (*before_)(int);
};

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

template <class... Args>
std::string text(const char* format, Args... args) {
  std::array<char, 320> line{};
  std::snprintf(line.data(), line.size(), format, args...);
  return line.data();
}

// What must be the same for a checkpoint to be gone on from: everything that decides the numbers.
std::string identity_of(const train_settings& s, const training_texts& texts, int threads) {
  const scorer_plan& p = s.plan;
  std::string id =
      text("kind=%s layers=%lld kv_heads=%lld head_dim=%lld", kvpop::name_of(p.kind), static_cast<long long>(p.layers),
           static_cast<long long>(p.kv_heads), static_cast<long long>(p.head_dim));
  id +=
      text(" hidden=%lld dk=%lld dv=%lld sinks=%lld window=%lld delay=%lld decay=%d", static_cast<long long>(p.hidden),
           static_cast<long long>(p.dk), static_cast<long long>(p.dv), static_cast<long long>(p.sinks),
           static_cast<long long>(p.window), static_cast<long long>(p.delay), p.decay ? 1 : 0);
  id += text(" loss=%s lse=%s target=%s aggregate=%d topk=%lld..%lld samples=%lld", name_of(s.loss.loss),
             name_of(s.loss.lse), name_of(s.loss.target).c_str(), static_cast<int>(s.loss.target.over_group),
             static_cast<long long>(s.loss.least_topk), static_cast<long long>(s.loss.most_topk),
             static_cast<long long>(s.loss.samples));
  id += text(" tau=%.17g balance=%d margins=%d", s.loss.boundary.tau, s.loss.boundary.balance ? 1 : 0,
             s.loss.boundary.margin_weights ? 1 : 0);
  id +=
      text(" rate=%.17g warmup=%lld steps=%lld shape=%d clip=%.17g", s.rate.peak, static_cast<long long>(s.rate.warmup),
           static_cast<long long>(s.rate.steps), static_cast<int>(s.rate.shape), s.clip);
  id += text(" length=%lld batch=%lld seed=%llu documents=%lld tokens=%lld threads=%d",
             static_cast<long long>(s.length), static_cast<long long>(s.batch), static_cast<unsigned long long>(s.seed),
             static_cast<long long>(texts.documents()), static_cast<long long>(texts.tokens()), threads);
  return id;
}

class training {
 public:
  training(const kvpop::host_context& ctx, const model& network, const train_settings& settings,
           const training_texts& texts, const training_texts* valid, const train_files& files)
      : settings_(settings),
        files_(files),
        least_(2 * settings.plan.window),
        batch_(ctx, network, settings.plan, settings.loss),
        rows_(texts, settings.length, least_, settings.seed),
        state_(trainable_scorer(settings.plan, settings.seed)),
        gradient_(state_.scorer.values().size()),
        checkpoint_(files.output + ".checkpoint"),
        identity_(identity_of(settings, texts, ctx.threads())) {
    if (valid != nullptr) valid_rows_ = valid->rows(settings.length, least_, settings.seed, 0);
    const std::int64_t parameters = static_cast<std::int64_t>(gradient_.size());
    const std::int64_t bytes = train_batch::bytes(ctx, network.config(), settings.plan, settings.length) +
                               parameters * 4 * 4 + 4 * texts.tokens() * 2;
    note(text("train: %s, %lld parameters in %lld heads; %lld documents, %lld tokens; memory %.0f MiB beside the model",
              kvpop::name_of(settings.plan.kind), static_cast<long long>(parameters),
              static_cast<long long>(settings.plan.heads()), static_cast<long long>(texts.documents()),
              static_cast<long long>(texts.tokens()), static_cast<double>(bytes) / 1048576));
  }

  train_result run() {
    const interrupt_guard guard;
    start();
    if (!files_.log.empty()) log_ = std::fopen(files_.log.c_str(), files_.resume ? "a" : "w");
    if (!files_.log.empty() && log_ == nullptr) throw load_error(files_.log + " cannot be written");
    const std::int64_t first = state_.step;
    const auto begin = clock::now();
    auto told = begin;
    train_result result;
    batch_metrics recent, all;
    while (state_.step < settings_.rate.steps && interrupted == 0) {
      const batch_metrics metrics = step();
      if (files_.after_step) files_.after_step(state_.step);
      all.add(metrics);
      recent.add(metrics);
      if (state_.step > settings_.rate.steps - std::max<std::int64_t>(settings_.rate.steps / 10, 1))
        result.last.add(metrics);
      const bool last = state_.step == settings_.rate.steps;
      if (files_.eval_every > 0 && (state_.step % files_.eval_every == 0 || last)) validate(result);
      if (seconds_since(told) >= 5 || last || state_.step == first + 1) {
        tell(recent, static_cast<double>(state_.step - first), seconds_since(begin));
        recent = {};
        told = clock::now();
      }
      if (state_.step % files_.checkpoint_every == 0 && !last) save_checkpoint(checkpoint_, state_, identity_);
    }
    result.steps = state_.step;
    result.interrupted = state_.step < settings_.rate.steps;
    result.seconds = seconds_since(begin);
    result.forward_share = all.seconds > 0 ? all.forward_seconds / all.seconds : 0;
    save_checkpoint(checkpoint_, state_, identity_);
    if (!result.interrupted) state_.scorer.save(files_.output, name_of(settings_.loss.target), middle_topk());
    if (log_ != nullptr && std::fclose(log_) != 0) throw load_error(files_.log + " could not be written");
    return result;
  }

 private:
  std::int64_t middle_topk() const {
    return std::llround(
        std::sqrt(static_cast<double>(settings_.loss.least_topk) * static_cast<double>(settings_.loss.most_topk)));
  }

  void start() {
    if (files_.resume) {
      load_checkpoint(checkpoint_, state_, identity_);
      note("train: goes on after step " + std::to_string(state_.step));
      return;
    }
    // One look at the first batch: what its inputs' sizes are.
    std::vector<double> squares(state_.scorer.scales().size(), 0.0);
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < settings_.batch; ++i) {
      const packed_row& row = rows_.at(i);
      batch_.add_input_squares(row, squares);
      tokens += row.size();
    }
    for (std::size_t i = 0; i < squares.size(); ++i) {
      const double rms = std::sqrt(squares[i] / static_cast<double>(tokens));
      state_.scorer.scales()[i] = static_cast<float>(std::isfinite(rms) && rms > 1e-6 ? rms : 1.0);
    }
  }

  batch_metrics step() {
    std::fill(gradient_.begin(), gradient_.end(), 0.0F);
    batch_metrics metrics;
    for (std::int64_t i = 0; i < settings_.batch; ++i) {
      const std::int64_t index = state_.step * settings_.batch + i;
      metrics.add(batch_.learn(rows_.at(index), state_.scorer, static_cast<std::uint64_t>(index),
                               1.0F / static_cast<float>(settings_.batch), gradient_));
    }
    const double norm = kvpop::global_norm(gradient_.data(), static_cast<std::int64_t>(gradient_.size()));
    if (!std::isfinite(norm) || !std::isfinite(metrics.loss)) stop_not_finite();
    const std::int64_t done = state_.step + 1;
    const double rate = settings_.rate.at(done), scale = kvpop::clip_scale(norm, settings_.clip);
    const scorer_plan& plan = settings_.plan;
    for (std::int64_t h = 0; h < plan.heads(); ++h) {
      const auto update = [&](std::int64_t from, std::int64_t to, bool decays) {
        const std::int64_t at = h * state_.scorer.stride() + from;
        kvpop::adamw_step(state_.scorer.values().data() + at, gradient_.data() + at, state_.first.data() + at,
                          state_.second.data() + at, to - from, scale, rate, done, decays, settings_.optimiser);
      };
      update(0, plan.matrices(), true);
      update(plan.matrices(), plan.block() + (plan.decay ? 1 : 0), false);
    }
    state_.step = done;
    nlohmann::ordered_json line = {{"step", done},
                                   {"loss", metrics.mean_loss()},
                                   {"accuracy", metrics.accuracy()},
                                   {"recall", metrics.mean_recall()},
                                   {"rate", rate},
                                   {"norm", norm},
                                   {"tokens", metrics.tokens},
                                   {"seconds", metrics.seconds}};
    if (settings_.loss.lse == lse_source::student) line["lse_gap"] = metrics.mean_lse_gap();
    log(line);
    return metrics;
  }

  [[noreturn]] void stop_not_finite() {
    std::string where = "the loss";
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      if (std::isfinite(gradient_[i])) continue;
      const std::int64_t head = static_cast<std::int64_t>(i) / state_.scorer.stride();
      where = "a gradient of layer " + std::to_string(head / settings_.plan.kv_heads) + ", KV head " +
              std::to_string(head % settings_.plan.kv_heads);
      break;
    }
    save_checkpoint(checkpoint_, state_, identity_);
    throw load_error("train: " + where + " is not finite at step " + std::to_string(state_.step + 1) +
                     "; the last good state, of step " + std::to_string(state_.step) + ", is in " + checkpoint_);
  }

  void validate(train_result& result) {
    if (valid_rows_.empty()) return;
    batch_metrics metrics;
    for (std::size_t i = 0; i < valid_rows_.size(); ++i) metrics.add(batch_.measure(valid_rows_[i], state_.scorer, i));
    note(text("train: step %lld, held-out text: loss %.4f, boundary accuracy %.3f, recall %.3f",
              static_cast<long long>(state_.step), metrics.mean_loss(), metrics.accuracy(), metrics.mean_recall()));
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (const double r : metrics.layer_recall)
      layers.push_back(r * static_cast<double>(settings_.plan.layers) / std::max(metrics.heads, 1.0));
    log({{"step", state_.step},
         {"valid_loss", metrics.mean_loss()},
         {"valid_accuracy", metrics.accuracy()},
         {"valid_recall", metrics.mean_recall()},
         {"valid_layer_recall", layers}});
    result.valid = metrics;
  }

  void tell(const batch_metrics& m, double steps, double seconds) const {
    const auto left = static_cast<double>(settings_.rate.steps - state_.step) * seconds / std::max(steps, 1.0);
    note(text("train: step %lld of %lld, loss %.4f, boundary accuracy %.3f, recall %.3f, %.0f tokens/s, %.0f s left",
              static_cast<long long>(state_.step), static_cast<long long>(settings_.rate.steps), m.mean_loss(),
              m.accuracy(), m.mean_recall(), static_cast<double>(m.tokens) / std::max(m.seconds, 1e-9), left));
  }

  void log(const nlohmann::ordered_json& line) {
    if (log_ == nullptr) return;
    const std::string written = line.dump() + "\n";
    std::fputs(written.c_str(), log_);
    std::fflush(log_);
  }

  const train_settings& settings_;
  const train_files& files_;
  std::int64_t least_;
  train_batch batch_;
  row_stream rows_;
  std::vector<packed_row> valid_rows_;
  train_state state_;
  std::vector<float> gradient_;
  std::string checkpoint_;
  std::string identity_;
  std::FILE* log_ = nullptr;
};

}  // namespace

train_result train(const kvpop::host_context& ctx, const model& network, const train_settings& settings,
                   const training_texts& texts, const training_texts* valid, const train_files& files) {
  settings.rate.validate();
  settings.optimiser.validate();
  settings.loss.boundary.validate();
  return training(ctx, network, settings, texts, valid, files).run();
}

}  // namespace qwen3
