#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <random>

/// Random inputs that can be drawn again: every property test takes its numbers from a `generator`.
namespace kvpop_test {

/// What all generators start from: KVPOP_SEED of the environment, else a fixed number. Printed when first used.
inline std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* text = std::getenv("KVPOP_SEED");
    const std::uint64_t chosen = text != nullptr ? std::strtoull(text, nullptr, 0) : 260705061U;
    std::printf("KVPOP_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    return chosen;
  }();
  return value;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// How many draws a property gets: `n`, and a tenth of it under a sanitizer, which looks at each one more closely.
inline int draws(int n) { return sanitized ? (n + 9) / 10 : n; }

/// A stream of random numbers; the same for the same KVPOP_SEED and `stream`.
class generator {
 public:
  explicit generator(std::uint64_t stream) : engine_(seed() * 0x9e3779b97f4a7c15U + stream) {}

  std::uint64_t bits() { return engine_(); }

  /// One of lo .. hi, both included.
  std::int64_t integer(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(bits() % (static_cast<std::uint64_t>(hi - lo) + 1));
  }

  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[integer(0, static_cast<std::int64_t>(values.size()) - 1)];
  }

  bool chance(double probability) { return uniform() < probability; }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

  float normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * uniform()));
  }

  /// A number that a score may be: many ties, now and then NaN of either sign, infinities, zeros of either sign, the
  /// smallest, the largest and denormals.
  float score() {
    switch (integer(0, 15)) {
      case 0:
        return std::bit_cast<float>(pick<std::uint32_t>({0x7fc00000U, 0xffc00000U, 0x7f800001U, 0xffffffffU}));
      case 1:
        return std::bit_cast<float>(pick<std::uint32_t>({0x7f800000U, 0xff800000U}));
      case 2:
        return std::bit_cast<float>(pick<std::uint32_t>({0U, 0x80000000U, 1U, 0x80000001U, 0x007fffffU, 0x00800000U}));
      case 3:
        return std::bit_cast<float>(pick<std::uint32_t>({0x7f7fffffU, 0xff7fffffU}));
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
        return static_cast<float>(integer(-3, 3));
      default:
        return normal();
    }
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace kvpop_test
