#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvpop/core/context.hpp"         // host_context
#include "kvpop/train/boundary_loss.hpp"  // boundary_options
#include "model.hpp"                      // model, activations
#include "target.hpp"                     // target_settings
#include "teacher.hpp"                    // packed_row
#include "trainable_scorer.hpp"           // trainable_scorer

namespace qwen3 {

/// What a scorer learns from (docs/method.md section 5): `boundary` is the method, the others are there to compare.
enum class score_loss { boundary, regression, pairs };

score_loss score_loss_of(const std::string& name);
const char* name_of(score_loss loss);

/// Whose log-sum-exp turns logits into the attention that targets are made of (docs/method.md section 3): the dense
/// forward's, which is exact, or that of the student, who sees only what its scorer would hold now.
enum class lse_source { dense, student };

lse_source lse_source_of(const std::string& name);
const char* name_of(lse_source lse);

/// How losses are formed.
struct loss_settings {
  score_loss loss = score_loss::boundary;
  target_settings target = {};
  lse_source lse = lse_source::dense;
  kvpop::boundary_options boundary{.balance = true};
  std::int64_t least_topk = 1, most_topk = 1;  // drawn anew, log-uniformly, for each document
  std::int64_t samples = 512;                  // comparisons a head and document, at most
  std::uint64_t seed = 1;
};

/// What some rows gave, summed or counted so that parts can be added.
struct batch_metrics {
  double loss = 0;               // sum over heads and documents of the mean over their comparisons
  double heads = 0;              // heads and documents that had comparisons
  std::int64_t comparisons = 0;  // boundary pairs looked at
  std::int64_t right = 0;        // of those, ordered as the teacher orders them
  double recall = 0;  // sum over heads and documents of the share of the teacher's top k that the student keeps
  std::int64_t tokens = 0;
  double lse_gap = 0;  // sum over queries, heads and layers of the dense LSE less the student's, where that is used
  std::int64_t lse_queries = 0;
  std::vector<double> layer_recall;  // [layers] likewise
  double seconds = 0, forward_seconds = 0, target_seconds = 0, scorer_seconds = 0;

  double mean_loss() const { return heads > 0 ? loss / heads : 0; }
  double accuracy() const {
    return comparisons > 0 ? static_cast<double>(right) / static_cast<double>(comparisons) : 0;
  }
  double mean_recall() const { return heads > 0 ? recall / heads : 0; }
  double mean_lse_gap() const { return lse_queries > 0 ? lse_gap / static_cast<double>(lse_queries) : 0; }
  void add(const batch_metrics& other);
  /// Of one layer's queries, [tokens, query_heads].
  void add_lse_gap(const float* dense, std::span<const float> student);
};

/// One dense forward of each row, and from it targets, comparisons, losses and gradients of all layers' scorers; a layer's
/// activations are dropped before the next layer runs.
class train_batch {
 public:
  train_batch(const kvpop::host_context& ctx, const model& network, const scorer_plan& plan,
              const loss_settings& settings);

  /// Adds the row to gradient [heads, block + 1]: of the mean loss over heads and documents, times `weight`. `draw` numbers
  /// the row among all of a training: it decides its budgets and samples.
  batch_metrics learn(const packed_row& row, const trainable_scorer& scorer, std::uint64_t draw, float weight,
                      std::vector<float>& gradient);

  /// The same without a gradient, and always by the dense log-sum-exp, so that trainings can be compared.
  batch_metrics measure(const packed_row& row, const trainable_scorer& scorer, std::uint64_t draw);

  /// Adds up squares of the row's inputs, [heads, inputs]; divide by the tokens and take the root.
  void add_input_squares(const packed_row& row, std::vector<double>& squares);

  /// The dense forward alone, for a comparison of speed. Returns its seconds.
  double forward_only(const packed_row& row);

  /// Bytes that rows of up to `tokens` tokens take, parameters not counted.
  static std::int64_t bytes(const kvpop::host_context& ctx, const model_config& config, const scorer_plan& plan,
                            std::int64_t tokens);

 private:
  batch_metrics run(const packed_row& row, const trainable_scorer& scorer, std::uint64_t draw, float weight,
                    float* gradient);

  const kvpop::host_context& ctx_;
  const model& model_;
  scorer_plan plan_;
  loss_settings settings_;
  activations activations_;
  std::vector<std::byte> target_scratch_;
  std::vector<float> targets_;                   // [kv_heads, tokens]
  std::vector<std::int64_t> deaths_;             // [kv_heads, tokens] of the student
  std::vector<float> student_lse_;               // [tokens, query_heads]
  std::vector<std::vector<std::byte>> scratch_;  // [kv_heads]
};

}  // namespace qwen3
