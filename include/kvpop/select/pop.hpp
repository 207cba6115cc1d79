#pragma once

#include <cstdint>  // std::uint8_t
#include <limits>

#include "kvpop/select/order.hpp"  // order_key

/// Streaming eviction: which slot of a head gives way to the newest token.

KVPOP_NAMESPACE_BEGIN

/// The positions first .. last, both included; none when last < first.
struct position_range {
  index_t first;
  index_t last;
};

/// The slots of one head that may be popped.
struct pop_candidates {
  const double* priority;   ///< [slots] any doubles, NaN and infinities included
  const index_t* position;  ///< [slots] absolute positions, -1 where the slot is empty; distinct among the candidates
  const std::uint8_t* pinned;  ///< [slots] nonzero where pinned; null when nothing is
  position_range range;        ///< only these positions are candidates; 0 <= range.first

  /// order_key less 2^63: the same order in signed comparisons, the only ones of 64 bits that AVX2 has.
  [[nodiscard]] index_t key(index_t slot) const noexcept {
    return static_cast<index_t>(order_key(priority[slot]) ^ (std::uint64_t{1} << 63));
  }
  [[nodiscard]] bool contains(index_t slot) const noexcept {
    return position[slot] >= range.first && position[slot] <= range.last && (pinned == nullptr || pinned[slot] == 0);
  }
};

/// The weakest candidate met so far.
struct pop_choice {
  /// No priority has this key: that of +infinity is lower.
  static constexpr index_t no_key = std::numeric_limits<index_t>::max();

  index_t key = no_key;
  index_t position = no_key;
  index_t slot = -1;

  void keep_weaker(const pop_choice& other) noexcept {
    if (other.key < key || (other.key == key && other.position < position)) {
      *this = other;
    }
  }
};

#if defined(__AVX2__)

/// `pop` over whole vectors: each lane keeps its own weakest candidate.
///
/// Compiler vector types, so that AVX-512 and AVX2 come from one text. SSE2 has no comparison of 64-bit integers; there
/// the scalar loop is three times faster than what the compilers make of these vectors.
class pop_lanes {
 public:
#if defined(__AVX512F__)
  static constexpr index_t lanes = 8;
#else
  static constexpr index_t lanes = 4;
#endif
  static constexpr index_t block = 8 * lanes;  ///< slots whose priorities are read before anything else of them is

  explicit pop_lanes(const pop_candidates& from) noexcept : from_(from) {
    for (index_t lane = 0; lane < lanes; ++lane) {
      lane_id_[lane] = lane;
    }
  }

  /// Looks at the slots i .. i + block - 1.
  ///
  /// Positions, half of the bytes, are read only where some priority does not exceed the lowest one found so far; and
  /// pins, only where some slot of the range beats what was found so far: of random priorities in a few blocks a head.
  void take_block(index_t i) noexcept {
    vector key[block / lanes];
    vector over = all(-1);
    for (index_t v = 0; v < block / lanes; ++v) {
      __builtin_prefetch(from_.priority + i + v * lanes + ahead);  // past the end lies the next head's beginning
      key[v] = keys(i + v * lanes);
      over &= key[v] > bound_key_;
    }
    if (everywhere(over)) {
      return;
    }
    vector better = {};
    for (index_t v = 0; v < block / lanes; ++v) {
      const vector position = load(from_.position + i + v * lanes);
      better |= in_range(position) & beats(key[v], position, bound_key_, bound_position_);
    }
    if (everywhere(~better)) {
      return;
    }
    for (index_t v = 0; v < block; v += lanes) {
      take(i + v);
    }
    const pop_choice bound = choice();
    bound_key_ = all(bound.key);
    bound_position_ = all(bound.position);
  }

  /// Looks at the slots i .. i + lanes - 1.
  void take(index_t i) noexcept {
    const vector key = keys(i);
    const vector position = load(from_.position + i);
    vector better = in_range(position) & beats(key, position, key_, position_);
    if (from_.pinned != nullptr && any_pinned(i)) {
      better &= unpinned(i);
    }
    key_ = better ? key : key_;
    position_ = better ? position : position_;
    slot_ = better ? all(i) + lane_id_ : slot_;
  }

  /// The weakest candidate of all lanes.
  [[nodiscard]] pop_choice choice() const noexcept {
    pop_choice weakest;
    for (index_t lane = 0; lane < lanes; ++lane) {
      weakest.keep_weaker({key_[lane], position_[lane], slot_[lane]});
    }
    return weakest;
  }

 private:
  // Slots. A step's attention has thrown the priorities out of the near caches: with prefetching a pop takes a fifth less.
  static constexpr index_t ahead = 512;

  using vector [[gnu::vector_size(lanes * sizeof(index_t))]] = index_t;

  static vector all(index_t value) noexcept { return vector{} + value; }

  template <class T>
  static vector load(const T* from) noexcept {
    static_assert(sizeof(T) == sizeof(index_t));
    vector v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  }

  // pop_candidates::key of `lanes` slots.
  [[nodiscard]] vector keys(index_t i) const noexcept {
    const vector bits = load(from_.priority + i);
    const vector magnitude = bits & all(std::numeric_limits<index_t>::max());
    const vector negative = bits < vector{};
    const vector key = (magnitude ^ negative) - negative;
    return magnitude > all(index_t{0x7ff} << 52) ? all(std::numeric_limits<index_t>::min()) : key;
  }

  [[nodiscard]] vector in_range(vector position) const noexcept {
    return (position >= all(from_.range.first)) & (position <= all(from_.range.last));
  }
  // Whether a slot is weaker than another choice.
  static vector beats(vector key, vector position, vector other_key, vector other_position) noexcept {
    return (key < other_key) | ((key == other_key) & (position < other_position));
  }

  // Pins are rare, so that widening them is worth a branch.
  [[nodiscard]] bool any_pinned(index_t i) const noexcept {
    std::uint64_t pins = 0;
    __builtin_memcpy(&pins, from_.pinned + i, lanes);
    return pins != 0;
  }
  [[nodiscard]] vector unpinned(index_t i) const noexcept {
    vector pins;
    for (index_t lane = 0; lane < lanes; ++lane) {
      pins[lane] = from_.pinned[i + lane];
    }
    return pins == vector{};
  }

  static bool everywhere(vector mask) noexcept {
    index_t set = -1;
    for (index_t lane = 0; lane < lanes; ++lane) {
      set &= mask[lane];
    }
    return set != 0;
  }

  pop_candidates from_;
  vector lane_id_ = {};
  vector key_ = all(pop_choice::no_key);
  vector position_ = all(pop_choice::no_key);
  vector slot_ = all(-1);
  vector bound_key_ = all(pop_choice::no_key);  // of the weakest candidate of the whole blocks so far
  vector bound_position_ = all(pop_choice::no_key);
};

#endif

/// The slot of the weakest candidate of one head: lowest priority, of equal ones the earliest position (select/order.hpp).
///
/// A slot is a candidate when its position lies in the range and it is not pinned. The cache asks for
/// {sinks, q - window}: sinks and window are out by their position, never by a score.
///
/// \param priority  [slots] any doubles, NaN and infinities included
/// \param position  [slots] absolute positions, -1 where the slot is empty; distinct among the candidates
/// \param pinned    [slots] nonzero where pinned; null when nothing is
/// \param slots     how many slots to look at, 0 <= slots
/// \param range     only these positions are candidates; 0 <= range.first
/// \return the slot, or -1 when there is no candidate
///
/// Complexity: one pass; 8 to 17 bytes read a slot, 8 where its priority exceeds the lowest found before it.
/// Allocates and synchronises: no. Determinism: equal on every instruction set and under every floating-point flag.
[[nodiscard]] inline index_t pop(const double* priority, const index_t* position, const std::uint8_t* pinned,
                                 index_t slots, position_range range) noexcept {
  const pop_candidates candidates{priority, position, pinned, range};
  pop_choice weakest;
  index_t i = 0;
#if defined(__AVX2__)
  pop_lanes lanes(candidates);
  for (; i + pop_lanes::block <= slots; i += pop_lanes::block) {
    lanes.take_block(i);
  }
  for (; i + pop_lanes::lanes <= slots; i += pop_lanes::lanes) {
    lanes.take(i);
  }
  weakest = lanes.choice();
#endif
  for (; i < slots; ++i) {
    const index_t key = candidates.key(i);
    if (key <= weakest.key && candidates.contains(i)) {
      weakest.keep_weaker({key, position[i], i});
    }
  }
  return weakest.slot;
}

KVPOP_NAMESPACE_END
