#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "head_dims.hpp"                // head_dims
#include "kv_cache.hpp"                 // kv_cache
#include "kvpop/cache/budget.hpp"       // budget
#include "kvpop/cache/cache_ref.hpp"    // cache_shape
#include "kvpop/score/scorer_file.hpp"  // scorer_layer
#include "layer_scorer.hpp"             // layer_scorer

namespace qwen3 {

/// What a kv_cache is built from, once its method has become scorers.
struct kv_cache_parts {
  std::int64_t query_heads = 0;
  std::int64_t head_dim = 0;  // among head_dims
  kvpop::cache_shape shape;
  kvpop::budget limits;
  std::vector<layer_scorer> scorers;               // [layers]
  std::vector<kvpop::scorer_layer> scorer_owners;  // keep what learned scorers point at
};

/// The cache of one dtype. Each is compiled in a file of its own, since that takes the compiler long: kv_cache_f32.cpp,
/// kv_cache_bf16.cpp, kv_cache_f16.cpp.
template <class T>
std::unique_ptr<kv_cache> make_kv_cache_of(kv_cache_parts parts);

}  // namespace qwen3
