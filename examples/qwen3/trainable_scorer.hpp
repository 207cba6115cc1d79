#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvpop/score/learned_scorer.hpp"  // scorer_kind
#include "kvpop/train/mlp.hpp"             // mlp_sizes
#include "kvpop/train/mlstm.hpp"           // mlstm_sizes

namespace qwen3 {

/// What kind of scorer is trained, for which model, and how it will be used.
struct scorer_plan {
  kvpop::scorer_kind kind = kvpop::scorer_kind::mlstm;
  std::int64_t layers = 0, kv_heads = 0, head_dim = 0;
  std::int64_t hidden = 64;       // MLP
  std::int64_t dk = 16, dv = 16;  // mLSTM
  std::int64_t sinks = 4, window = 256;
  std::int64_t delay = 0;  // at most window; the MLP does not care
  bool decay = true;

  std::int64_t inputs() const { return 2 * head_dim; }
  bool is_mlp() const { return kind == kvpop::scorer_kind::mlp; }
  kvpop::mlp_sizes mlp() const { return {inputs(), hidden}; }
  kvpop::mlstm_sizes mlstm() const { return {inputs(), dk, dv}; }

  /// Parameters of one head, without g.
  std::int64_t block() const { return is_mlp() ? mlp().parameters() : mlstm().parameters(); }
  /// Of those, the first that belong to matrices and decay.
  std::int64_t matrices() const { return is_mlp() ? mlp().b1() : mlstm().f() * inputs(); }
  /// Floats of memory a head needs in inference, which the budget is charged for.
  std::int64_t memory_size() const { return is_mlp() ? 0 : dv * dk + dk + 1; }
  std::int64_t heads() const { return layers * kv_heads; }
};

/// The parameters of all layers' scorers while they are trained. Every head sees its inputs divided by `scale`, their root
/// mean square in the first batch, so that one learning rate serves all models; a scorer file has the scale folded in.
class trainable_scorer {
 public:
  /// Random parameters: the same for the same seed.
  trainable_scorer(const scorer_plan& plan, std::uint64_t seed);

  const scorer_plan& plan() const { return plan_; }

  /// One head's parameters and g, [block + 1]; `head` counts over layers and KV heads.
  float* head(std::int64_t head) { return values_.data() + head * stride(); }
  const float* head(std::int64_t head) const { return values_.data() + head * stride(); }
  std::int64_t stride() const { return plan_.block() + 1; }

  /// All heads' parameters, [heads, block + 1], and input scales, [heads, inputs].
  std::vector<float>& values() { return values_; }
  const std::vector<float>& values() const { return values_; }
  std::vector<float>& scales() { return scales_; }
  const std::vector<float>& scales() const { return scales_; }

  /// log gamma of a head; 0 without decay.
  float log_gamma(std::int64_t head) const;

  /// Writes a scorer file that load_scorer reads. Throws load_error when that fails; the file that was there is kept then.
  void save(const std::string& path, const std::string& target, std::int64_t topk) const;

 private:
  scorer_plan plan_;
  std::vector<float> values_;
  std::vector<float> scales_;
};

}  // namespace qwen3
