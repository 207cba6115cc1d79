#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "attention.hpp"               // attention, qkv_chunk
#include "config.hpp"                  // model_config
#include "kvpop/attention/masked.hpp"  // masked_params
#include "target.hpp"                  // target_settings

namespace qwen3 {

/// Documents packed in one row: token i belongs to the document that begins at starts[d] <= i < starts[d + 1].
struct packed_row {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t>
      starts;  // of each document, ascending, the first 0; the end of the row is the end of the last

  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t documents() const { return static_cast<std::int64_t>(starts.size()); }
  std::int64_t begin(std::int64_t document) const { return starts[static_cast<std::size_t>(document)]; }
  std::int64_t end(std::int64_t document) const { return document + 1 < documents() ? begin(document + 1) : size(); }
};

/// The dense forward of a whole row: every document attends to itself alone, with positions of its own. What a layer's
/// attention saw is handed to a function while it is there.
class teacher final : public attention {
 public:
  /// One layer's queries, keys, values, and the log-sum-exp of each query [tokens, query_heads].
  using layer_function =
      std::function<void(const kvpop::host_context& ctx, std::int64_t layer, const qkv_chunk& chunk, const float* lse)>;

  /// `row` must outlive the teacher. Throws load_error when the model's head dimension is not compiled in.
  teacher(const model_config& config, const packed_row& row, layer_function each_layer);

  void set(layer_function each_layer) { each_layer_ = std::move(each_layer); }

  std::int64_t position(std::int64_t i) const override;
  void attend(const kvpop::host_context& ctx, std::int64_t layer, const qkv_chunk& chunk, float* out) override;

  /// Which document each token belongs to, [tokens].
  const std::vector<std::int32_t>& segments() const { return segments_; }

 private:
  const model_config& config_;
  const packed_row& row_;
  layer_function each_layer_;
  std::vector<std::int32_t> segments_;
  std::vector<float> lse_;
  std::vector<std::byte> scratch_;
};

/// masked_attention of what one layer saw. `out` [tokens, query_heads, head_dim]; null: only params.lse is wanted. `scratch`
/// grows as needed.
void layer_attention(const kvpop::host_context& ctx, const model_config& config, const qkv_chunk& chunk,
                     const kvpop::masked_params& params, std::vector<std::byte>& scratch, float* out);

/// The targets of one layer, log of the future attention: target [kv_heads, tokens]. `window` queries after its own are not
/// counted; `scratch` grows as needed.
void layer_targets(const kvpop::host_context& ctx, const model_config& config, const qkv_chunk& chunk, const float* lse,
                   std::span<const std::int32_t> segments, std::int64_t window, const target_settings& settings,
                   std::vector<std::byte>& scratch, float* target);

}  // namespace qwen3
