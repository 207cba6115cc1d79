#include "train_batch.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "blas_product.hpp"                // blas_product
#include "error.hpp"                       // usage_error, in_quotes
#include "kvpop/score/decay.hpp"           // log_gamma_slope
#include "kvpop/select/death_times.hpp"    // death_times_of_head
#include "kvpop/select/priority.hpp"       // fold_decay
#include "kvpop/select/top_k.hpp"          // top_k
#include "kvpop/train/boundary_pairs.hpp"  // boundary_pairs
#include "kvpop/train/mlstm_backward.hpp"  // mlstm_forward, mlstm_backward
#include "kvpop/train/random_stream.hpp"   // random_stream, sample
#include "kvpop/train/score_losses.hpp"    // regression_loss, pair_loss
#include "linear.hpp"                      // linear_scratch

namespace qwen3 {

namespace {

using kvpop::index_t;
using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

// Memory of one head's work on one row, carved for documents of up to `tokens` tokens.
struct head_memory {
  float* x = nullptr;         // [tokens, inputs] of one document, scaled
  float* r = nullptr;         // [tokens]
  float* dr = nullptr;        // [tokens]
  double* target = nullptr;   // [tokens]
  double* teacher = nullptr;  // [tokens] priorities
  double* student = nullptr;  // [tokens]
  kvpop::rank* heap = nullptr;
  kvpop::boundary_pair* pairs = nullptr;
  index_t* best = nullptr;  // [2, tokens]
  std::byte* select = nullptr;
  std::size_t select_bytes = 0;
  kvpop::mlp_tape<float> mlp;
  kvpop::mlstm_tape<float> mlstm;
  kvpop::mlstm_backward_scratch<float> backward;

  static head_memory carve(kvpop::carver& memory, const scorer_plan& plan, index_t tokens) {
    head_memory m;
    m.x = memory.take<float>(tokens * plan.inputs());
    m.r = memory.take<float>(tokens);
    m.dr = memory.take<float>(tokens);
    m.target = memory.take<double>(tokens);
    m.teacher = memory.take<double>(tokens);
    m.student = memory.take<double>(tokens);
    m.heap = memory.take<kvpop::rank>(tokens);
    m.pairs = memory.take<kvpop::boundary_pair>(tokens);
    m.best = memory.take<index_t>(2 * tokens);
    m.select_bytes = kvpop::top_k_workspace({}, 1, tokens, tokens);
    m.select = memory.take<std::byte>(static_cast<index_t>(m.select_bytes));
    if (plan.is_mlp()) {
      m.mlp = kvpop::mlp_tape<float>::carve(memory, plan.mlp(), tokens);
    } else {
      m.mlstm = kvpop::mlstm_tape<float>::carve(memory, plan.mlstm(), tokens);
      m.backward = kvpop::mlstm_backward_scratch<float>::carve(memory, plan.mlstm(), tokens);
    }
    return m;
  }
};

// One document of one head of one layer.
struct document_task {
  const scorer_plan& plan;
  const loss_settings& settings;
  const float* parameters;  // [block + 1]
  float log_gamma;
  kvpop::budget limits;
  index_t tokens;
  float weight;
  float* gradient;  // [block + 1], or null
  kvpop::random_stream random;

  void forward(const head_memory& m) const {
    if (plan.is_mlp()) {
      kvpop::mlp_forward(blas_product{}, plan.mlp(), parameters, m.x, plan.inputs(), tokens, m.mlp, m.r);
    } else {
      kvpop::mlstm_forward(blas_product{}, plan.mlstm(), parameters, m.x, plan.inputs(), tokens, plan.delay, m.mlstm,
                           m.r);
    }
  }
  void backward(const head_memory& m) const {
    if (plan.is_mlp()) {
      kvpop::mlp_backward(blas_product{}, plan.mlp(), parameters, m.x, plan.inputs(), tokens, m.mlp, m.dr, gradient);
    } else {
      kvpop::mlstm_backward(blas_product{}, plan.mlstm(), parameters, m.x, plan.inputs(), tokens, plan.delay, m.mlstm,
                            m.dr, m.backward, gradient);
    }
  }

  // Of the tokens that have left the window, the share of the teacher's topk best that are the student's too.
  double recall(const head_memory& m) const {
    const index_t eligible = kvpop::eligible_tokens(tokens, limits), k = std::min(limits.topk, eligible);
    const auto best = [&](const double* priority, index_t* out) {
      kvpop::top_k({}, kvpop::row_view<const double>(priority + limits.sinks, {1, eligible}), {},
                   kvpop::row_view<index_t>(out, {1, k}), kvpop::top_k_order::position, {m.select, m.select_bytes});
    };
    best(m.teacher, m.best);
    best(m.student, m.best + tokens);
    index_t common = 0;
    for (index_t i = 0, j = 0; i < k && j < k;) {
      const index_t a = m.best[i], b = m.best[tokens + j];
      common += a == b ? 1 : 0;
      i += a <= b ? 1 : 0;
      j += b <= a ? 1 : 0;
    }
    return static_cast<double>(common) / static_cast<double>(k);
  }

  // When each token would die if the cache ran on this scorer now.
  void deaths(const head_memory& m, index_t* death) const {
    forward(m);
    for (index_t t = 0; t < tokens; ++t) m.student[t] = kvpop::fold_decay(m.r[t], log_gamma, t);
    kvpop::death_times_of_head(m.student, nullptr, death, tokens, limits, m.heap);
  }

  // Scores, loss, gradient; nothing when no comparison ever decides.
  void run(const head_memory& m, std::int64_t layer, batch_metrics& metrics) {
    index_t count = kvpop::max_boundary_pairs(tokens, limits);
    if (count == 0) return;
    forward(m);
    for (index_t t = 0; t < tokens; ++t) {
      m.teacher[t] = m.target[t] - static_cast<double>(t) * static_cast<double>(log_gamma);
      m.student[t] = kvpop::fold_decay(m.r[t], log_gamma, t);
      m.dr[t] = 0;
    }
    count = kvpop::boundary_pairs(m.teacher, tokens, limits, m.heap, m.pairs);
    count = kvpop::sample(random, m.pairs, count, settings.samples);
    const float each = weight / static_cast<float>(count);
    // The boundary loss is always formed: its accuracy is what is reported.
    const auto boundary = kvpop::boundary_loss(m.pairs, count, m.r, log_gamma, m.target, settings.boundary, each, m.dr);
    double loss = static_cast<double>(boundary.loss);
    if (settings.loss != score_loss::boundary) {
      std::fill(m.dr, m.dr + tokens, 0.0F);
      const index_t scored = kvpop::scored_tokens(tokens, limits);
      loss = settings.loss == score_loss::regression
                 ? static_cast<double>(
                       kvpop::regression_loss(m.r, m.target, tokens, limits, weight / static_cast<float>(scored), m.dr))
                 : static_cast<double>(kvpop::pair_loss(random, m.r, m.target, tokens, limits, count, each, m.dr));
    }
    metrics.loss += loss / static_cast<double>(weight);
    metrics.heads += 1;
    metrics.comparisons += count;
    metrics.right += boundary.right;
    const double kept = recall(m);
    metrics.recall += kept;
    metrics.layer_recall[static_cast<std::size_t>(layer)] += kept;
    if (gradient == nullptr) return;
    backward(m);
    if (plan.decay && settings.loss == score_loss::boundary) {
      gradient[plan.block()] +=
          static_cast<float>(static_cast<double>(boundary.dlog_gamma) *
                             kvpop::log_gamma_slope(static_cast<double>(parameters[plan.block()])));
    }
  }
};

// k of one document: log-uniform between the two, the same for all layers and heads.
index_t drawn_topk(const loss_settings& settings, std::uint64_t draw, index_t document) {
  kvpop::random_stream random = kvpop::random_stream::of(settings.seed, draw, static_cast<std::uint64_t>(document));
  const double least = std::log(static_cast<double>(settings.least_topk)),
               most = std::log(static_cast<double>(settings.most_topk));
  return std::llround(std::exp(least + (most - least) * random.uniform()));
}

// What the scorers of one layer have to do for one row.
struct layer_work {
  const scorer_plan& plan;
  const loss_settings& settings;
  const trainable_scorer& scorer;
  const packed_row& row;
  const qkv_chunk& chunk;
  const model_config& config;
  std::int64_t layer;
  std::uint64_t draw;
  index_t longest;  // document

  index_t head(index_t h) const { return layer * plan.kv_heads + h; }

  head_memory memory_in(std::vector<std::byte>& scratch) const {
    kvpop::carver carver({scratch.data(), scratch.size()}, "train");
    return head_memory::carve(carver, plan, longest);
  }

  document_task task(index_t h, index_t document, float weight, float* gradient) const {
    const auto random =
        kvpop::random_stream::of(settings.seed ^ 0x5bd1e995U, draw * 1048583U + static_cast<std::uint64_t>(document),
                                 static_cast<std::uint64_t>(head(h)));
    return {plan,
            settings,
            scorer.head(head(h)),
            scorer.log_gamma(head(h)),
            {plan.sinks, plan.window, drawn_topk(settings, draw, document)},
            row.end(document) - row.begin(document),
            weight,
            gradient == nullptr ? nullptr : gradient + head(h) * scorer.stride(),
            random};
  }

  // x = [k ; v] of one head over a document, each input divided by its scale.
  void load(index_t h, index_t document, float* x) const {
    const index_t dim = config.head_dim;
    const float* scale = scorer.scales().data() + head(h) * plan.inputs();
    for (index_t t = row.begin(document); t < row.end(document); ++t, x += 2 * dim) {
      const float* k = chunk.k + (t * config.kv_heads + h) * dim;
      const float* v = chunk.v + (t * config.kv_heads + h) * dim;
      for (index_t d = 0; d < dim; ++d) x[d] = k[d] / scale[d];
      for (index_t d = 0; d < dim; ++d) x[dim + d] = v[d] / scale[dim + d];
    }
  }
};

// When every token of the row would die if the caches of this layer ran on these scorers: death [kv_heads, tokens].
void student_deaths(const kvpop::host_context& ctx, const layer_work& work,
                    std::vector<std::vector<std::byte>>& scratch, index_t* death) {
  ctx.parallel_for(work.plan.kv_heads, [&](index_t h) noexcept {
    const head_memory m = work.memory_in(scratch[static_cast<std::size_t>(h)]);
    for (index_t d = 0; d < work.row.documents(); ++d) {
      work.load(h, d, m.x);
      const document_task task = work.task(h, d, 1.0F, nullptr);
      index_t* const own = death + h * work.row.size() + work.row.begin(d);
      task.deaths(m, own);
      for (index_t t = 0; t < task.tokens; ++t) {
        if (own[t] != kvpop::never) own[t] += work.row.begin(d);  // of the row, not of the document
      }
    }
  });
}

}  // namespace

score_loss score_loss_of(const std::string& name) {
  for (const score_loss loss : {score_loss::boundary, score_loss::regression, score_loss::pairs})
    if (name == name_of(loss)) return loss;
  throw usage_error("--loss is " + in_quotes(name) + "; it must be boundary, regression or pairs");
}

lse_source lse_source_of(const std::string& name) {
  for (const lse_source lse : {lse_source::dense, lse_source::student})
    if (name == name_of(lse)) return lse;
  throw usage_error("--lse is " + in_quotes(name) + "; it must be dense or student");
}

const char* name_of(lse_source lse) { return lse == lse_source::dense ? "dense" : "student"; }

const char* name_of(score_loss loss) {
  return loss == score_loss::boundary ? "boundary" : loss == score_loss::regression ? "regression" : "pairs";
}

void batch_metrics::add(const batch_metrics& other) {
  loss += other.loss;
  heads += other.heads;
  comparisons += other.comparisons;
  right += other.right;
  recall += other.recall;
  tokens += other.tokens;
  lse_gap += other.lse_gap;
  lse_queries += other.lse_queries;
  layer_recall.resize(std::max(layer_recall.size(), other.layer_recall.size()), 0.0);
  for (std::size_t i = 0; i < other.layer_recall.size(); ++i) layer_recall[i] += other.layer_recall[i];
  seconds += other.seconds;
  forward_seconds += other.forward_seconds;
  target_seconds += other.target_seconds;
  scorer_seconds += other.scorer_seconds;
}

void batch_metrics::add_lse_gap(const float* dense, std::span<const float> student) {
  for (std::size_t i = 0; i < student.size(); ++i) lse_gap += static_cast<double>(dense[i] - student[i]);
  lse_queries += static_cast<std::int64_t>(student.size());
}

train_batch::train_batch(const kvpop::host_context& ctx, const model& network, const scorer_plan& plan,
                         const loss_settings& settings)
    : ctx_(ctx), model_(network), plan_(plan), settings_(settings), scratch_(static_cast<std::size_t>(plan.kv_heads)) {}

batch_metrics train_batch::learn(const packed_row& row, const trainable_scorer& scorer, std::uint64_t draw,
                                 float weight, std::vector<float>& gradient) {
  return run(row, scorer, draw, weight, gradient.data());
}

batch_metrics train_batch::measure(const packed_row& row, const trainable_scorer& scorer, std::uint64_t draw) {
  return run(row, scorer, draw, 1.0F, nullptr);
}

batch_metrics train_batch::run(const packed_row& row, const trainable_scorer& scorer, std::uint64_t draw, float weight,
                               float* gradient) {
  const model_config& config = model_.config();
  const index_t heads = plan_.kv_heads;
  index_t longest = 0;
  for (index_t d = 0; d < row.documents(); ++d) longest = std::max(longest, row.end(d) - row.begin(d));
  kvpop::carver count;
  static_cast<void>(head_memory::carve(count, plan_, longest));
  for (auto& memory : scratch_) memory.resize(std::max(memory.size(), count.bytes()));
  targets_.resize(static_cast<std::size_t>(heads * row.size()));
  if (gradient != nullptr && settings_.lse == lse_source::student) {
    deaths_.resize(targets_.size());
    student_lse_.resize(static_cast<std::size_t>(row.size() * config.query_heads));
  }

  batch_metrics total;
  total.layer_recall.resize(static_cast<std::size_t>(plan_.layers), 0.0);
  std::vector<batch_metrics> of_head(static_cast<std::size_t>(heads), total);
  const float each = weight / static_cast<float>(plan_.heads() * row.documents());
  const auto started = clock::now();
  teacher dense(config, row, nullptr);
  const auto on_layer = [&](const kvpop::host_context& ctx, std::int64_t layer, const qkv_chunk& chunk,
                            const float* lse) {
    auto begin = clock::now();
    const layer_work work{plan_, settings_, scorer, row, chunk, config, layer, draw, longest};
    if (gradient != nullptr && settings_.lse == lse_source::student) {
      student_deaths(ctx, work, scratch_, deaths_.data());
      kvpop::masked_params params;
      params.deaths = {deaths_.data(), {1, heads, row.size()}};
      params.segments = {dense.segments().data(), {1, row.size()}};
      params.lse = {student_lse_.data(), {1, row.size(), config.query_heads}};
      layer_attention(ctx, config, chunk, params, target_scratch_, nullptr);
      total.add_lse_gap(lse, student_lse_);
      lse = student_lse_.data();
    }
    layer_targets(ctx, config, chunk, lse, dense.segments(), plan_.window, settings_.target, target_scratch_,
                  targets_.data());
    total.target_seconds += seconds_since(begin);
    begin = clock::now();
    ctx.parallel_for(heads, [&](index_t h) noexcept {
      const head_memory m = work.memory_in(scratch_[static_cast<std::size_t>(h)]);
      for (index_t d = 0; d < row.documents(); ++d) {
        document_task task = work.task(h, d, each, gradient);
        work.load(h, d, m.x);
        const float* target = targets_.data() + h * row.size() + row.begin(d);
        std::copy(target, target + task.tokens, m.target);
        task.run(m, layer, of_head[static_cast<std::size_t>(h)]);
      }
    });
    total.scorer_seconds += seconds_since(begin);
  };
  dense.set(on_layer);
  model_.forward(ctx_, row.tokens, dense, activations_, 0, nullptr);
  for (const batch_metrics& m : of_head) total.add(m);
  total.tokens = row.size();
  total.seconds = seconds_since(started);
  total.forward_seconds = total.seconds - total.target_seconds - total.scorer_seconds;
  return total;
}

void train_batch::add_input_squares(const packed_row& row, std::vector<double>& squares) {
  const model_config& config = model_.config();
  teacher dense(config, row, [&](const kvpop::host_context&, std::int64_t layer, const qkv_chunk& chunk, const float*) {
    for (index_t t = 0; t < chunk.tokens; ++t) {
      for (index_t h = 0; h < config.kv_heads; ++h) {
        double* to = squares.data() + (layer * config.kv_heads + h) * plan_.inputs();
        const index_t at = (t * config.kv_heads + h) * config.head_dim;
        for (index_t d = 0; d < config.head_dim; ++d) {
          to[d] += std::pow(static_cast<double>(chunk.k[at + d]), 2);
          to[config.head_dim + d] += std::pow(static_cast<double>(chunk.v[at + d]), 2);
        }
      }
    }
  });
  model_.forward(ctx_, row.tokens, dense, activations_, 0, nullptr);
}

double train_batch::forward_only(const packed_row& row) {
  const auto begin = clock::now();
  teacher dense(model_.config(), row, nullptr);
  model_.forward(ctx_, row.tokens, dense, activations_, 0, nullptr);
  return seconds_since(begin);
}

std::int64_t train_batch::bytes(const kvpop::host_context& ctx, const model_config& c, const scorer_plan& plan,
                                std::int64_t tokens) {
  kvpop::carver head;
  static_cast<void>(head_memory::carve(head, plan, tokens));
  const std::int64_t floats_a_token = 2 * c.hidden + 2 * c.query_width() + 2 * c.kv_width() + c.head_dim +
                                      2 * c.intermediate + 2 * c.query_heads + 3 * c.kv_heads;
  return tokens * floats_a_token * 4 + static_cast<std::int64_t>(head.bytes()) * plan.kv_heads +
         static_cast<std::int64_t>(kvpop::future_workspace(ctx, 1, tokens, c.query_heads, c.kv_heads, c.head_dim)) +
         linear_scratch(ctx) * 4;
}

}  // namespace qwen3
