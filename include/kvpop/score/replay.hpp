#pragma once

#include <bit>
#include <cstdint>

#include "kvpop/core/error.hpp"  // expects
#include "kvpop/core/view.hpp"   // view

KVPOP_NAMESPACE_BEGIN

/// Replays evictions decided elsewhere: the score of a token is its death time, so a cache of the same budget drops the
/// same token at the same step (docs/method.md section 2).
///
/// Used to compare two ways of computing a model when what is held must not differ, and to drive a cache by an oracle.
class replay {
 public:
  /// Death times as `death_times` writes them; INT64_MAX = never.
  using death_view = view<const index_t, host_memory, axis::head, axis::token>;

  /// death: [kv_heads, tokens], dense along tokens; kept by the caller while the scorer is used. The same for every row
  /// of a batch.
  ///
  /// Throws `error` when tokens exceeds 2^24: a score is a float, and beyond that two death times could be one number.
  explicit replay(death_view death) : death_(death) {
    const index_t tokens = death.extent<axis::token>();
    expects(tokens <= max_tokens, "replay: death.extent(token)", tokens, "at most 2^24: scores are floats");
    expects(death.stride<axis::token>() == 1, "replay: death.stride(token)", death.stride<axis::token>(), "1");
  }

  [[nodiscard]] index_t kv_heads() const noexcept { return death_.extent<axis::head>(); }

  /// The death time; plus infinity for a token that never dies or that `death` does not cover.
  [[nodiscard]] float score(index_t head, index_t position, const float* /*x*/,
                            const float* /*memory*/) const noexcept {
    const index_t tokens = death_.extent<axis::token>();
    const index_t death = position < tokens ? death_(head, position) : tokens;
    return death < tokens ? static_cast<float>(death) : std::bit_cast<float>(std::uint32_t{0x7f800000});
  }

 private:
  static constexpr index_t max_tokens = index_t{1} << 24;

  death_view death_;
};

KVPOP_NAMESPACE_END
