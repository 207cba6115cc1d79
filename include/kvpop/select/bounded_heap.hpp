#pragma once

#include "kvpop/select/order.hpp"  // rank, outranks

KVPOP_NAMESPACE_BEGIN

/// The `places` best of a stream of tokens: each newcomer competes at once and the loser leaves for good.
///
/// A heap of four children a node, the weakest on top, over memory that the caller owns. Entry is `rank`, or a struct
/// derived from it that carries more (a slot, say); it is copied around and must be trivially copyable.
/// Allocates and synchronises: no. Determinism: the loser depends on the ranks alone.
template <class Entry = rank>
class bounded_heap {
 public:
  /// \param storage  room for as many entries as will be held at once: min(places, insertions) of them
  /// \param places   0 <= places
  bounded_heap(Entry* storage, index_t places) noexcept : entries_(storage), places_(places) {}

  [[nodiscard]] index_t places() const noexcept { return places_; }
  [[nodiscard]] index_t size() const noexcept { return size_; }

  /// The entries held, in no particular order: size() of them.
  [[nodiscard]] const Entry* entries() const noexcept { return entries_; }

  /// Offers a token a place.
  ///
  /// \param loser  whoever has no place now, the newcomer itself or an entry that was held; written on true alone
  /// \return whether somebody lost
  ///
  /// Complexity: O(log places); O(1) for a newcomer that loses.
  bool insert(const Entry& newcomer, Entry& loser) noexcept {
    if (size_ < places_) {
      sift_up(size_++, newcomer);
      return false;
    }
    if (places_ == 0 || !outranks(newcomer, entries_[0])) {
      loser = newcomer;
      return true;
    }
    loser = entries_[0];
    sift_down(newcomer);
    return true;
  }

  /// Takes one place away, as a pinned token does. Precondition: places() > 0.
  ///
  /// \param loser  the weakest entry, when all places were taken; written on true alone
  /// \return whether somebody lost
  bool remove_place(Entry& loser) noexcept {
    --places_;
    if (size_ <= places_) {
      return false;
    }
    loser = entries_[0];
    --size_;
    if (size_ > 0) {
      sift_down(entries_[size_]);
    }
    return true;
  }

 private:
  static constexpr index_t children = 4;

  void sift_up(index_t hole, const Entry entry) noexcept {
    while (hole > 0) {
      const index_t parent = (hole - 1) / children;
      if (!outranks(entries_[parent], entry)) {
        break;
      }
      entries_[hole] = entries_[parent];
      hole = parent;
    }
    entries_[hole] = entry;
  }

  // Puts an entry on top and lets it sink below the weaker ones.
  void sift_down(const Entry entry) noexcept {
    index_t hole = 0;
    for (index_t child = 1; child < size_; child = hole * children + 1) {
      const index_t weakest = child + children <= size_ ? weakest_of_four(child) : weakest_of(child, size_);
      if (outranks(entries_[weakest], entry)) {
        break;
      }
      entries_[hole] = entries_[weakest];
      hole = weakest;
    }
    entries_[hole] = entry;
  }

  // A tournament of selects, which has no branch to mispredict.
  [[nodiscard]] index_t weakest_of_four(index_t first) const noexcept {
    const index_t a = first + index_t{outranks(entries_[first], entries_[first + 1])};
    const index_t b = first + 2 + index_t{outranks(entries_[first + 2], entries_[first + 3])};
    return outranks(entries_[a], entries_[b]) ? b : a;
  }

  [[nodiscard]] index_t weakest_of(index_t first, index_t last) const noexcept {
    index_t weakest = first;
    for (index_t i = first + 1; i < last; ++i) {
      weakest = outranks(entries_[weakest], entries_[i]) ? i : weakest;
    }
    return weakest;
  }

  Entry* entries_;
  index_t places_;
  index_t size_ = 0;
};

KVPOP_NAMESPACE_END
