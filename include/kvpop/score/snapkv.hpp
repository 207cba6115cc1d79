#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "kvpop/cache/budget.hpp"    // budget
#include "kvpop/core/simd.hpp"       // simd::dot
#include "kvpop/core/workspace.hpp"  // carver

KVPOP_NAMESPACE_BEGIN

/// SnapKV: when the prompt ends, the weights of its last 32 queries choose what stays (docs/method.md section 7).
///
/// During the prompt nothing is dropped: the cache holds it whole, and the scorer's memory keeps the newest 32 queries.
/// `snapkv_priorities` then turns them into priorities, the cache is compacted to its budget, and from there on all
/// priorities are 0: the oldest token beyond the sinks is dropped.
///
/// Memory of one (sequence, head): queries [32, group, key_dim], then 32 positions of 64 bits; position p lies at p % 32.
class snapkv {
 public:
  static constexpr bool needs_weights = false;
  static constexpr bool needs_queries = true;
  static constexpr index_t observed = 32;  ///< newest queries that vote, and newest tokens that always stay
  static constexpr index_t pooling = 7;    ///< neighbouring positions whose weights are averaged

  /// group: query heads that share a KV head. Throws `error` unless group is in 1 .. 1024 and key_dim in 1 .. 8192.
  snapkv(index_t group, index_t key_dim) : group_(group), key_dim_(key_dim) {
    expects(group >= 1 && group <= 1024, "snapkv: group", group, "in 1 .. 1024");
    expects(key_dim >= 1 && key_dim <= 8192, "snapkv: key_dim", key_dim, "in 1 .. 8192");
  }

  [[nodiscard]] index_t group() const noexcept { return group_; }
  [[nodiscard]] index_t key_dim() const noexcept { return key_dim_; }
  [[nodiscard]] index_t memory_size() const noexcept { return observed * (group_ * key_dim_ + floats_per_position); }

  /// No query remembered.
  void reset(float* memory) const noexcept {
    std::memset(memory, 0, static_cast<std::size_t>(memory_size()) * sizeof(float));
    for (index_t i = 0; i < observed; ++i) {
      set_position(memory, i, -1);
    }
  }

  /// Remembers the queries of one token and forgets those of 32 tokens ago. q: [group, key_dim].
  void note_query(index_t /*head*/, index_t position, const float* q, float* memory) const noexcept {
    std::memcpy(query_place(position, memory), q, static_cast<std::size_t>(group_ * key_dim_) * sizeof(float));
  }

  /// The same for queries that are not dense floats: notes the position and returns where its queries go, for the caller
  /// to write all of [group, key_dim].
  [[nodiscard]] float* query_place(index_t position, float* memory) const noexcept {
    const index_t place = position % observed;
    set_position(memory, place, position);
    return memory + place * group_ * key_dim_;
  }

  /// Weights leave priorities as they are: 0 until `snapkv_priorities`, and after the compaction.
  [[nodiscard]] double attended(double priority, float /*weight*/) const noexcept { return priority; }

  /// The queries at a place of the ring: [group, key_dim].
  [[nodiscard]] const float* queries(const float* memory, index_t place) const noexcept {
    return memory + place * group_ * key_dim_;
  }
  /// Their position; -1 where none has been remembered.
  [[nodiscard]] index_t position(const float* memory, index_t place) const noexcept {
    index_t p = 0;
    std::memcpy(&p, positions(memory) + place * floats_per_position, sizeof(p));
    return p;
  }

 private:
  static constexpr index_t floats_per_position = sizeof(index_t) / sizeof(float);

  [[nodiscard]] const float* positions(const float* memory) const noexcept {
    return memory + observed * group_ * key_dim_;
  }
  void set_position(float* memory, index_t place, index_t position) const noexcept {
    std::memcpy(memory + observed * group_ * key_dim_ + place * floats_per_position, &position, sizeof(position));
  }

  index_t group_;
  index_t key_dim_;
};

/// The budget of SnapKV after its compaction: sinks, the newest 32 and the best of the rest.
///
/// Throws `error` unless sinks and window fit.
[[nodiscard]] inline budget snapkv_budget(index_t entries, index_t sinks) {
  expects(sinks >= 0, "snapkv_budget: sinks", sinks, "at least 0");
  expects(entries >= snapkv::observed, "snapkv_budget: entries", entries, "at least 32, the window");
  expects(sinks <= entries - snapkv::observed, "snapkv_budget: sinks", sinks, "at most entries - 32");
  const budget b{.sinks = sinks, .window = snapkv::observed, .topk = entries - sinks - snapkv::observed};
  b.validate();
  return b;
}

/// Scratch of `snapkv_priorities` for up to `held` tokens of one head; run once with `carver()` to size it.
struct snapkv_scratch {
  float* logits = nullptr;  ///< [held] by slot, of one query
  double* mass = nullptr;   ///< [held] by position: the sum of the weights of all queries

  snapkv_scratch(carver& memory, index_t held) : logits(memory.take<float>(held)), mass(memory.take<double>(held)) {}
};

/// Adds the softmax weights of one query over the tokens up to its position to `scratch.mass`.
template <class T>
void snapkv_add_weights(const float* query, index_t query_position, index_t key_dim, const T* keys,
                        const index_t* position, index_t held, float scale, const snapkv_scratch& scratch) noexcept {
  bool any = false;
  double largest = 0.0;
  for (index_t i = 0; i < held; ++i) {
    if (position[i] > query_position) {
      continue;
    }
    scratch.logits[i] = simd::dot(query, keys + i * key_dim, key_dim) * scale;
    const double logit = static_cast<double>(scratch.logits[i]);
    largest = any && largest > logit ? largest : logit;
    any = true;
  }
  double sum = 0.0;
  for (index_t i = 0; i < held; ++i) {
    if (position[i] <= query_position) {
      sum += std::exp(static_cast<double>(scratch.logits[i]) - largest);
    }
  }
  for (index_t i = 0; i < held; ++i) {
    if (position[i] <= query_position) {
      scratch.mass[position[i]] += std::exp(static_cast<double>(scratch.logits[i]) - largest) / sum;
    }
  }
}

/// Priorities of the held tokens of one (sequence, head) at the end of the prompt.
///
/// Each remembered query's softmax over the tokens up to its position; the mean over queries and group; then, over the
/// positions before the newest 32, the average of 7 neighbours with zeros beyond both ends, as the published code pools.
/// The newest 32 are protected by the window and get 0.
///
/// keys      [held, key_dim] by slot, dense
/// position  [held] by slot. The prompt is held whole: each of 0 .. held - 1 once, in any order of slots.
/// scale     of the attention logits
/// memory    [s.memory_size()], filled by `note_query`
/// priority  [held] by slot, written
///
/// Computed in double from float logits in one fixed order: equal inputs give equal bits. Reads the keys once for each of
/// the 32 * group queries. Allocates nothing.
template <class T>
void snapkv_priorities(const snapkv& s, const T* keys, const index_t* position, index_t held, float scale,
                       const float* memory, double* priority, const snapkv_scratch& scratch) noexcept {
  for (index_t t = 0; t < held; ++t) {
    scratch.mass[t] = 0.0;
  }
  index_t queries = 0;
  for (index_t place = 0; place < snapkv::observed; ++place) {
    const index_t query_position = s.position(memory, place);
    if (query_position < 0) {
      continue;
    }
    for (index_t g = 0; g < s.group(); ++g) {
      snapkv_add_weights(s.queries(memory, place) + g * s.key_dim(), query_position, s.key_dim(), keys, position, held,
                         scale, scratch);
      ++queries;
    }
  }
  const index_t pooled = held > snapkv::observed ? held - snapkv::observed : 0;  // positions before the newest 32
  for (index_t i = 0; i < held; ++i) {
    double sum = 0.0;
    if (position[i] < pooled && queries > 0) {
      for (index_t d = -(snapkv::pooling / 2); d <= snapkv::pooling / 2; ++d) {
        const index_t t = position[i] + d;
        sum += t >= 0 && t < pooled ? scratch.mass[t] : 0.0;
      }
      sum /= static_cast<double>(snapkv::pooling * queries);
    }
    priority[i] = sum;
  }
}

KVPOP_NAMESPACE_END
