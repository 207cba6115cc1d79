#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "kvpop/core/config.hpp"  // index_t

/// Scorers whose every result a test can predict.
namespace kvpop_test {

using kvpop::index_t;

/// One step of a small mixing function; all values fit 24 bits, so floats hold them exactly.
constexpr std::uint32_t mix(std::uint32_t h, std::uint32_t word) noexcept {
  h = (h ^ word) * 0x9e3779b1U;
  return (h ^ (h >> 15U)) & 0xfffU;
}

/// What a probe's memory becomes when it absorbs a token: it depends on everything absorbed and on the order.
constexpr std::uint32_t absorbed(std::uint32_t before, index_t head, index_t position, float first,
                                 float last) noexcept {
  std::uint32_t h = mix(before, std::bit_cast<std::uint32_t>(first));
  h = mix(h, std::bit_cast<std::uint32_t>(last));
  h = mix(h, static_cast<std::uint32_t>(head));
  return mix(h, static_cast<std::uint32_t>(position));
}

/// The score of a token is the first component of its key, as stored: a test writes scores into keys.
struct echo_scorer {
  index_t lag = 0;
  const float* decay = nullptr;  // [kv_heads] log gamma; null: none

  [[nodiscard]] index_t delay() const noexcept { return lag; }
  [[nodiscard]] float score(index_t, index_t, const float* x, const float*) const noexcept { return x[0]; }
  [[nodiscard]] float log_gamma(index_t head) const noexcept { return decay == nullptr ? 0.0F : decay[head]; }
};

/// A scorer with memory: a hash of all that it has absorbed, and a count. Its scores are the first component of the key
/// plus the hash, so one token absorbed too many, too few, twice or out of order changes them.
struct memory_scorer {
  index_t lag = 0;
  const float* decay = nullptr;
  index_t width = 2;  // key_dim + value_dim

  static constexpr float first_hash = 77.0F;

  [[nodiscard]] index_t delay() const noexcept { return lag; }
  [[nodiscard]] index_t memory_size() const noexcept { return 2; }
  void reset(float* memory) const noexcept {
    memory[0] = first_hash;
    memory[1] = 0.0F;
  }
  void observe(index_t head, index_t position, const float* x, float* memory) const noexcept {
    memory[0] = static_cast<float>(absorbed(static_cast<std::uint32_t>(memory[0]), head, position, x[0], x[width - 1]));
    memory[1] += 1.0F;
  }
  [[nodiscard]] float score(index_t, index_t, const float* x, const float* memory) const noexcept {
    return x[0] + memory[0];
  }
  [[nodiscard]] float log_gamma(index_t head) const noexcept { return decay == nullptr ? 0.0F : decay[head]; }
};

/// A scorer that follows attention; append alone leaves every priority at 0.
struct attending_probe {
  static constexpr bool needs_weights = true;
  static constexpr bool needs_queries = false;
  [[nodiscard]] double attended(double priority, float weight) const noexcept {
    return priority + static_cast<double>(weight);
  }
};

static_assert(std::is_trivially_copyable_v<echo_scorer> && std::is_trivially_copyable_v<memory_scorer>);

}  // namespace kvpop_test
