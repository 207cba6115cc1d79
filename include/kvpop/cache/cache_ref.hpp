#pragma once

#include <cstdint>
#include <limits>

#include "kvpop/cache/budget.hpp"    // budget
#include "kvpop/core/dtype.hpp"      // scalar_traits
#include "kvpop/core/workspace.hpp"  // carver: one description of the layout, counted and carved

KVPOP_NAMESPACE_BEGIN

/// The sizes of one layer's cache that are not its budget.
struct cache_shape {
  index_t sequences = 1;  ///< rows of the batch
  index_t kv_heads = 1;
  index_t memory = 0;  ///< floats of scorer memory per (sequence, KV head): the scorer's `memory_size()`
  /// Slots a head for a prompt that is held whole until `compact` (SnapKV); 0 when eviction starts at once.
  index_t prompt = 0;

  friend constexpr bool operator==(const cache_shape&, const cache_shape&) noexcept = default;
};

/// The arrays of a cache, wherever they live. `budgeted_cache_ref` is a view of them; an engine that keeps its own
/// memory fills them in by hand, or lets `carve_cache` lay them out in one block. All dense and row-major.
template <class T>
struct cache_arrays {
  T* keys = nullptr;               ///< [sequences, kv_heads, slots, key_dim]
  T* values = nullptr;             ///< [sequences, kv_heads, slots, value_dim]
  index_t* positions = nullptr;    ///< [sequences, kv_heads, slots] absolute position; -1 where empty
  double* priorities = nullptr;    ///< [sequences, kv_heads, slots] NaN where not scored yet
  float* memories = nullptr;       ///< [sequences, kv_heads, memory] the scorer's
  index_t* seen = nullptr;         ///< [sequences] tokens ever appended
  index_t* limits = nullptr;       ///< [sequences] slots that may be held
  std::int32_t* rings = nullptr;   ///< [sequences, kv_heads, window] slot of position p at p % window
  std::int32_t* held = nullptr;    ///< [sequences, kv_heads] tokens held now: slots [0, held) are live
  std::int32_t* pins = nullptr;    ///< [sequences] pinned tokens that are not sinks
  std::uint8_t* pinned = nullptr;  ///< [sequences, kv_heads, slots] 1 where pinned
};

/// One KV head of one sequence: the pointers that inner kernels work on. Slots [0, held) are live.
template <class T>
struct head_state {
  T* keys;               // [slots, key_dim]
  T* values;             // [slots, value_dim]
  index_t* positions;    // [slots]
  double* priorities;    // [slots]
  float* memory;         // [memory]
  std::int32_t* ring;    // [window]
  std::int32_t* held;    // one number
  std::uint8_t* pinned;  // [slots]
  index_t limit;         // slots that may be held
  index_t pins;          // pinned tokens that are not sinks
};

/// A layer's KV cache under a fixed budget: a trivially copyable view, and what every verb takes.
///
/// K and V are head-major. A token keeps its slot from its arrival to its eviction, and the token that arrives next is
/// written into the slot that was left: nothing is copied and nothing is re-indexed. The live slots of a head are
/// always [0, held). Which region a slot is in follows from its position alone: position < sinks is a sink, position >=
/// seen - window is in the window, anything else is long-range.
///
/// `seen` (tokens ever appended), `held` (tokens in memory now) and `capacity` (slots of the budget) are three different
/// numbers; `slots` is the physical size of a head, the larger of capacity and `shape.prompt`.
template <class T, index_t KeyDim, index_t ValueDim = KeyDim>
class budgeted_cache_ref {
  static_assert(KeyDim >= 1 && ValueDim >= 1);

 public:
  using value_type = T;
  static constexpr index_t key_dim = KeyDim;
  static constexpr index_t value_dim = ValueDim;

  /// Over arrays that the caller laid out; see `cache_arrays` for their shapes. Contents are used as they are: a new
  /// cache needs `clear`. Throws when shape or budget are invalid, or an array that holds something is null. Does not
  /// allocate.
  budgeted_cache_ref(const cache_arrays<T>& arrays, const cache_shape& shape, const kvpop::budget& limits)
      : arrays_(arrays), shape_(shape), budget_(limits) {
    validate(shape, limits);
    const auto there = [](const auto* array, const char* name) {
      if (array == nullptr) [[unlikely]] {
        fail(std::string("cache_arrays.") + name + " is null");
      }
    };
    there(arrays.keys, "keys");
    there(arrays.values, "values");
    there(arrays.positions, "positions");
    there(arrays.priorities, "priorities");
    if (shape.memory > 0) there(arrays.memories, "memories");
    there(arrays.seen, "seen");
    there(arrays.limits, "limits");
    there(arrays.rings, "rings");
    there(arrays.held, "held");
    there(arrays.pins, "pins");
    there(arrays.pinned, "pinned");
  }

  /// Throws `error` unless the sizes are valid and every array's size in bytes fits 63 bits.
  static void validate(const cache_shape& shape, const kvpop::budget& limits) {
    limits.validate();
    expects(shape.sequences >= 1, "cache_shape.sequences", shape.sequences, "at least 1");
    expects(shape.kv_heads >= 1, "cache_shape.kv_heads", shape.kv_heads, "at least 1");
    expects(shape.memory >= 0, "cache_shape.memory", shape.memory, "at least 0");
    expects(shape.prompt >= 0 && shape.prompt < (index_t{1} << 31), "cache_shape.prompt", shape.prompt,
            "at least 0 and less than 2^31");
    static_cast<void>(bytes(shape, limits));
  }

  /// Bytes of one block that holds all arrays, room for its alignment included.
  static std::size_t bytes(const cache_shape& shape, const kvpop::budget& limits) {
    carver count;
    static_cast<void>(carve(count, shape, limits));
    return count.bytes();
  }

  /// Lays the arrays out in one block of at least `bytes(shape, budget)`, each 64-byte aligned, in the order of
  /// `cache_arrays`. Contents are not initialised: `clear` does that.
  static cache_arrays<T> carve(carver& memory, const cache_shape& shape, const kvpop::budget& limits) {
    const index_t slots = slots_of(shape, limits);
    const index_t heads = checked_multiply(shape.sequences, shape.kv_heads, "cache");
    const index_t all = checked_multiply(heads, slots, "cache");
    cache_arrays<T> a;
    a.keys = memory.take<T>(checked_multiply(all, KeyDim, "cache"));
    a.values = memory.take<T>(checked_multiply(all, ValueDim, "cache"));
    a.positions = memory.take<index_t>(all);
    a.priorities = memory.take<double>(all);
    a.memories = memory.take<float>(checked_multiply(heads, shape.memory, "cache"));
    a.seen = memory.take<index_t>(shape.sequences);
    a.limits = memory.take<index_t>(shape.sequences);
    a.rings = memory.take<std::int32_t>(checked_multiply(heads, limits.window, "cache"));
    a.held = memory.take<std::int32_t>(heads);
    a.pins = memory.take<std::int32_t>(shape.sequences);
    a.pinned = memory.take<std::uint8_t>(all);
    return a;
  }

  [[nodiscard]] const cache_shape& shape() const noexcept { return shape_; }
  [[nodiscard]] const kvpop::budget& budget() const noexcept { return budget_; }
  [[nodiscard]] const cache_arrays<T>& arrays() const noexcept { return arrays_; }
  [[nodiscard]] index_t sequences() const noexcept { return shape_.sequences; }
  [[nodiscard]] index_t kv_heads() const noexcept { return shape_.kv_heads; }

  /// Slots of the budget: what a head holds once it is full.
  [[nodiscard]] index_t capacity() const noexcept { return budget_.capacity(); }
  /// Physical slots of a head; more than `capacity` only where a prompt is held whole.
  [[nodiscard]] index_t slots() const noexcept { return slots_of(shape_, budget_); }
  /// Tokens ever appended to a sequence: the position of the next one.
  [[nodiscard]] index_t seen(index_t sequence) const noexcept { return arrays_.seen[sequence]; }
  /// Tokens that a head holds now, in its slots [0, held).
  [[nodiscard]] index_t held(index_t sequence, index_t head) const noexcept {
    return arrays_.held[row(sequence, head)];
  }
  /// Tokens that a head of this sequence may hold: `capacity`, or `slots` until a prompt held whole is compacted.
  [[nodiscard]] index_t limit(index_t sequence) const noexcept { return arrays_.limits[sequence]; }
  /// Pinned tokens of a sequence that are not sinks; they take places of the long-range region.
  [[nodiscard]] index_t pins(index_t sequence) const noexcept { return arrays_.pins[sequence]; }

  /// The state of one KV head of one sequence.
  [[nodiscard]] head_state<T> head(index_t sequence, index_t head) const noexcept {
    const index_t r = row(sequence, head);
    const index_t first = r * slots();
    return {arrays_.keys + first * KeyDim,
            arrays_.values + first * ValueDim,
            arrays_.positions + first,
            arrays_.priorities + first,
            arrays_.memories + r * shape_.memory,
            arrays_.rings + r * budget_.window,
            arrays_.held + r,
            arrays_.pinned + first,
            arrays_.limits[sequence],
            arrays_.pins[sequence]};
  }

  /// Bytes of one KV entry of one head: the unit a scorer's memory is charged in.
  static constexpr index_t entry_bytes() noexcept { return (KeyDim + ValueDim) * static_cast<index_t>(sizeof(T)); }

 private:
  static constexpr index_t slots_of(const cache_shape& shape, const kvpop::budget& limits) noexcept {
    return limits.capacity() > shape.prompt ? limits.capacity() : shape.prompt;
  }

  [[nodiscard]] index_t row(index_t sequence, index_t head) const noexcept { return sequence * shape_.kv_heads + head; }

  cache_arrays<T> arrays_;
  cache_shape shape_;
  kvpop::budget budget_;
};

KVPOP_NAMESPACE_END
