#pragma once

#include <array>
#include <cstddef>
#include <type_traits>

#include "kvpop/core/config.hpp"  // index_t
#include "kvpop/core/memory.hpp"  // host_memory

KVPOP_NAMESPACE_BEGIN

/// The names of a tensor's axes: part of a view's type, and the words of its error messages.
namespace axis {
struct sequence {  ///< rows of a batch
  static constexpr const char* name = "sequence";
};
struct token {  ///< tokens of a chunk, oldest first
  static constexpr const char* name = "token";
};
struct head {  ///< query heads of q and out, KV heads of k and v
  static constexpr const char* name = "head";
};
struct slot {  ///< physical places of a head's storage
  static constexpr const char* name = "slot";
};
struct dim {  ///< components of one head's vector
  static constexpr const char* name = "dim";
};
}  // namespace axis

/// A non-owning, trivially copyable view of a strided tensor in one memory space.
///
/// Strides are in elements. The last axis is contiguous (stride 1); all others may be any, so that a fused QKV
/// projection is read in place. Nothing is checked on access: verbs check views once, at entry (core/view_checks.hpp).
template <class T, class Memory, class... Axes>
class view {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using memory = Memory;
  static constexpr std::size_t rank = sizeof...(Axes);

  /// An empty view: no data, all extents 0. Optional outputs are passed this way.
  constexpr view() noexcept = default;

  /// Row-major and dense.
  constexpr view(T* data, const std::array<index_t, rank>& extents) noexcept
      : data_(data), extents_(extents), strides_(dense(extents)) {}

  /// Strides in elements, one an axis; the last must be 1.
  constexpr view(T* data, const std::array<index_t, rank>& extents, const std::array<index_t, rank>& strides) noexcept
      : data_(data), extents_(extents), strides_(strides) {}

  /// view<T> converts to view<const T>, never to another memory space or other axes.
  template <class U>
  requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>) constexpr view(
      const view<U, Memory, Axes...>& other) noexcept  // NOLINT(google-explicit-constructor): as pointers do
      : data_(other.data()), extents_(other.extents()), strides_(other.strides()) {}

  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] constexpr const std::array<index_t, rank>& extents() const noexcept { return extents_; }
  [[nodiscard]] constexpr const std::array<index_t, rank>& strides() const noexcept { return strides_; }

  /// The extent along a named axis: `k.extent<axis::head>()`.
  template <class Axis>
  [[nodiscard]] constexpr index_t extent() const noexcept {
    return extents_[index_of<Axis>()];
  }
  /// The stride along a named axis, in elements.
  template <class Axis>
  [[nodiscard]] constexpr index_t stride() const noexcept {
    return strides_[index_of<Axis>()];
  }

  /// One element, by an index for each axis.
  template <class... Index>
  requires(sizeof...(Index) == rank) [[nodiscard]] constexpr T& operator()(Index... i) const noexcept {
    return data_[offset(i...)];
  }

  /// Where a vector along the last axis begins: an index for each axis but the last.
  template <class... Index>
  requires(sizeof...(Index) + 1 == rank) [[nodiscard]] constexpr T* row(Index... i) const noexcept {
    return data_ + offset(i..., 0);
  }

 private:
  static constexpr std::array<index_t, rank> dense(const std::array<index_t, rank>& extents) noexcept {
    std::array<index_t, rank> strides{};
    index_t step = 1;
    for (std::size_t i = rank; i-- > 0;) {
      strides[i] = step;
      step *= extents[i];
    }
    return strides;
  }

  template <class Axis>
  static consteval std::size_t index_of() {
    static_assert((std::is_same_v<Axis, Axes> || ...), "this view has no such axis");
    std::size_t i = 0;
    bool found = false;
    ((found = found || std::is_same_v<Axis, Axes>, i += found ? 0 : 1), ...);
    return i;
  }

  template <class... Index>
  constexpr index_t offset(Index... i) const noexcept {
    index_t sum = 0;
    std::size_t a = 0;
    ((sum += static_cast<index_t>(i) * strides_[a++]), ...);
    return sum;
  }

  T* data_ = nullptr;
  std::array<index_t, rank> extents_{};
  std::array<index_t, rank> strides_{};
};

/// One token of every sequence: [sequences, heads, dim].
template <class T, class Memory = host_memory>
using step_view = view<T, Memory, axis::sequence, axis::head, axis::dim>;

/// Several tokens of every sequence: [sequences, tokens, heads, dim].
template <class T, class Memory = host_memory>
using chunk_view = view<T, Memory, axis::sequence, axis::token, axis::head, axis::dim>;

/// One token a sequence seen as a chunk of one.
template <class T, class Memory>
constexpr chunk_view<T, Memory> as_chunk(const step_view<T, Memory>& x) noexcept {
  const auto& n = x.extents();
  const auto& s = x.strides();
  return {x.data(), {n[0], 1, n[1], n[2]}, {s[0], 0, s[1], s[2]}};
}

KVPOP_NAMESPACE_END
