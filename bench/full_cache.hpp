#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <vector>

#include "kvpop/cache/append.hpp"  // append
#include "kvpop/cache/cache.hpp"   // budgeted_cache

// Caches as an engine has them after a long prompt: full, and of so many layers that whoever takes them in turns finds
// nothing in the last-level cache.
namespace full_cache {

using kvpop::index_t;

// Normal tokens without end: each view begins at a place of its own in one array, so no two hold the same rows.
class token_bank {
 public:
  explicit token_bank(index_t largest_view) : floats_(static_cast<std::size_t>(largest_view + places)) {
    std::normal_distribution<float> normal;
    for (float& x : floats_) x = normal(random_);
  }

  [[nodiscard]] kvpop::chunk_view<const float> next(const std::array<index_t, 4>& extents) {
    return {floats_.data() + random_() % static_cast<unsigned>(places), extents};
  }

 private:
  static constexpr index_t places = index_t{1} << 18;
  std::mt19937 random_{1};
  std::vector<float> floats_;
};

// Memory in pages of 2 MiB, as an engine should keep its caches: with pages of 4 KiB the CPU looks up an address every few
// rows, which costs bandwidth, in a virtual machine most.
struct huge_pages {
  static std::byte* allocate(std::size_t bytes, std::size_t /*alignment*/) {
    const std::size_t whole = (bytes + page - 1) / page * page;
    void* p = std::aligned_alloc(page, whole);
    if (p != nullptr) madvise(p, whole, MADV_HUGEPAGE);  // a wish: where it is refused, pages are small
    return static_cast<std::byte*>(p);
  }
  static void deallocate(std::byte* p, std::size_t /*bytes*/, std::size_t /*alignment*/) noexcept { std::free(p); }

 private:
  static constexpr std::size_t page = std::size_t{2} << 20;
};

template <class T, index_t Dim>
class layers {
 public:
  using ref_type = kvpop::budgeted_cache_ref<T, Dim>;

  // Filled by `append` itself with the scorer `scorer_of(layer)`, so that priorities, ring and positions are its own.
  template <class ScorerOf>
  layers(const kvpop::host_context& ctx, const kvpop::cache_shape& shape, const kvpop::budget& limits,
         const ScorerOf& scorer_of) {
    const index_t count = count_for(shape, limits);
    const index_t chunk = std::min<index_t>(256, limits.capacity());
    token_bank tokens(shape.sequences * chunk * shape.kv_heads * Dim);
    caches_.reserve(static_cast<std::size_t>(count));
    for (index_t i = 0; i < count; ++i) {
      const ref_type& ref = refs_.emplace_back(caches_.emplace_back(shape, limits).ref());
      while (ref.seen(0) < limits.capacity()) {
        const index_t n = std::min(chunk, limits.capacity() - ref.seen(0));
        const std::array<index_t, 4> extents{shape.sequences, n, shape.kv_heads, Dim};
        kvpop::append(ctx, ref, scorer_of(i), tokens.next(extents), tokens.next(extents));
      }
    }
  }

  // Layers of this shape that are needed: 768 MiB of them and one more.
  static index_t count_for(const kvpop::cache_shape& shape, const kvpop::budget& limits) {
    constexpr std::size_t beyond_cache = std::size_t{768} << 20;
    return static_cast<index_t>(beyond_cache / ref_type::bytes(shape, limits)) + 1;
  }

  [[nodiscard]] const std::vector<ref_type>& refs() const { return refs_; }

 private:
  std::vector<kvpop::budgeted_cache<T, Dim, Dim, huge_pages>> caches_;
  std::vector<ref_type> refs_;
};

}  // namespace full_cache
