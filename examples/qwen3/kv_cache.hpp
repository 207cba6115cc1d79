#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "attention.hpp"           // attention, qkv_chunk
#include "config.hpp"              // model_config
#include "kvpop/core/context.hpp"  // host_context
#include "method.hpp"              // method_plan, cache_dtype

namespace qwen3 {

/// Where a sequence's evictions are to follow a run that was recorded: [layers][kv_heads, tokens] death times.
using death_record = std::vector<std::vector<std::int64_t>>;

/// The KV cache of one sequence: a kvpop::budgeted_cache a layer with that layer's scorer, behind one interface whatever
/// the dtype and the head dimension. Several live at once, one for each method that is compared.
///
/// For every layer in turn `attend` takes the same tokens; then `seen` has advanced.
class kv_cache : public attention {
 public:
  /// Appends the chunk to a layer and attends: a single token by kvpop::append, decode_attention and attended, more of
  /// them by kvpop::prefill. out [tokens, query_heads, head_dim].
  void attend(const kvpop::host_context& ctx, std::int64_t layer, const qkv_chunk& chunk, float* out) override = 0;

  std::int64_t position(std::int64_t i) const override { return seen() + i; }

  /// Ends a prompt that is held whole (SnapKV): from here on the budget holds. Nothing for caches without such a prompt.
  virtual void end_prompt(const kvpop::host_context& ctx) = 0;

  /// Tokens ever appended: the position of the next one.
  virtual std::int64_t seen() const = 0;

  /// Positions that a KV head holds, ascending.
  virtual std::vector<std::int64_t> held_positions(std::int64_t layer, std::int64_t kv_head) const = 0;

  /// Keys and values that a KV head holds, in order of position: each [held, head_dim].
  virtual void read(std::int64_t layer, std::int64_t kv_head, float* keys, float* values) const = 0;

  /// Bytes of the keys and values held now and of the scorers' memory, over all layers.
  virtual std::int64_t held_bytes() const = 0;

  /// From now on `deaths` is kept up to date; call before the first token.
  virtual void record_deaths() = 0;

  /// [layers][kv_heads, seen]: the first position whose query no longer saw a token; kvpop::never while it is held.
  virtual death_record deaths() const = 0;
};

/// What a cache is made for.
struct kv_cache_request {
  method_plan plan;
  cache_dtype dtype = cache_dtype::f32;
  std::uint64_t seed = 1;                // of the method `random`
  std::int64_t prompt = 0;               // tokens of the prompt, which SnapKV holds whole; others ignore it
  const death_record* replay = nullptr;  // evict as in this record and not by the method's own scores; must outlive it
};

/// Makes a cache. `scorers` and `config` must outlive it. Throws load_error naming the compiled head dimensions when the
/// model's is not among them; kvpop::error when there is no memory.
std::unique_ptr<kv_cache> make_kv_cache(const model_config& config, const scorer_set& scorers,
                                        const kv_cache_request& request);

}  // namespace qwen3
