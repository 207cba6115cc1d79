#pragma once

#include "kvpop/core/config.hpp"  // index_t

KVPOP_NAMESPACE_BEGIN

/// A set of places 1 .. n that counts and finds: a Fenwick tree (binary indexed tree) over memory that the caller owns.
///
/// Allocates: no.
class fenwick_tree {
 public:
  /// The empty set. O(n).
  ///
  /// \param storage  [n + 1]
  fenwick_tree(index_t* storage, index_t n) noexcept : sums_(storage), n_(n) {
    for (index_t i = 0; i <= n; ++i) {
      sums_[i] = 0;
    }
    while (top_ * 2 <= n) {
      top_ *= 2;
    }
  }

  /// How many places are in the set.
  [[nodiscard]] index_t total() const noexcept { return total_; }

  /// Puts a place into the set, 1 <= place <= n; it is not there yet. O(log n).
  void add(index_t place) noexcept {
    for (; place <= n_; place += place & -place) {
      ++sums_[place];
    }
    ++total_;
  }

  /// The place that has exactly `count` members at or below it and is one itself, 1 <= count <= total().
  ///
  /// Binary lifting: the largest index whose prefix holds fewer than `count` is built bit by bit. O(log n).
  [[nodiscard]] index_t find(index_t count) const noexcept {
    index_t below = 0;
    for (index_t step = top_; step > 0; step /= 2) {
      const index_t next = below + step;
      if (next <= n_ && sums_[next] < count) {
        below = next;
        count -= sums_[next];
      }
    }
    return below + 1;
  }

 private:
  index_t* sums_;
  index_t n_;
  index_t top_ = 1;  // the largest power of two <= n
  index_t total_ = 0;
};

KVPOP_NAMESPACE_END
