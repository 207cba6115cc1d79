#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include "support/generators.hpp"  // generator

/// The total order of tokens, top-k and death times stated plainly (docs/method.md section 2). Shares nothing with
/// include/kvpop/select/, a comparator least of all; holds under -ffast-math, because it takes doubles apart by hand.
namespace kvpop_test {

/// Orders like a token's place: is it a number, is it not negative, signed exponent, signed fraction, position.
using place = std::tuple<bool, bool, int, std::int64_t, std::int64_t>;

inline place place_of(const double& priority, std::int64_t position) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &priority, sizeof(bits));
  const int exponent = static_cast<int>((bits >> 52U) % 2048);
  const auto fraction = static_cast<std::int64_t>(bits % (std::uint64_t{1} << 52U));
  if (exponent == 2047 && fraction != 0) {
    return {false, false, 0, 0, position};
  }
  const bool zero = exponent == 0 && fraction == 0;
  const bool negative = bits >> 63U == 1 && !zero;
  return {true, !negative, negative ? -exponent : exponent, negative ? -fraction : fraction, position};
}

/// The indices of the k best of some tokens, the best first.
inline std::vector<std::int64_t> best_of(const std::vector<double>& priority, const std::vector<std::int64_t>& position,
                                         std::vector<std::int64_t> among, std::int64_t k) {
  std::sort(among.begin(), among.end(), [&](std::int64_t a, std::int64_t b) {
    const auto i = static_cast<std::size_t>(a);
    const auto j = static_cast<std::size_t>(b);
    return place_of(priority[i], position[i]) > place_of(priority[j], position[j]);
  });
  among.resize(std::min(among.size(), static_cast<std::size_t>(std::max<std::int64_t>(k, 0))));
  return among;
}

/// Positions 0 .. n - 1.
inline std::vector<std::int64_t> counting(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i) {
    all.push_back(i);
  }
  return all;
}

struct regions {
  std::int64_t sinks;
  std::int64_t window;
  std::int64_t topk;
};

/// The eligible tokens that query q still holds: the pinned ones, and the best of all others that ever were eligible.
inline std::vector<std::int64_t> long_range_at(std::int64_t q, const std::vector<double>& priority,
                                               const std::vector<std::uint8_t>& pinned, const regions& r) {
  std::vector<std::int64_t> kept;
  std::vector<std::int64_t> others;
  for (std::int64_t t = r.sinks; t <= q - r.window; ++t) {
    (pinned[static_cast<std::size_t>(t)] != 0 ? kept : others).push_back(t);
  }
  const auto places = r.topk - static_cast<std::int64_t>(kept.size());
  for (const std::int64_t t : best_of(priority, counting(static_cast<std::int64_t>(priority.size())), others, places)) {
    kept.push_back(t);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

/// Death times from the definition: for each token the first query that does not hold it; INT64_MAX when all do.
/// -1 if some token were to return, which no test expects.
inline std::vector<std::int64_t> quadratic_death_times(const std::vector<double>& priority,
                                                       const std::vector<std::uint8_t>& pinned, const regions& r) {
  const auto tokens = static_cast<std::int64_t>(priority.size());
  std::vector<std::int64_t> death(priority.size(), std::numeric_limits<std::int64_t>::max());
  for (std::int64_t q = 0; q < tokens; ++q) {
    const std::vector<std::int64_t> kept = long_range_at(q, priority, pinned, r);
    for (std::int64_t t = r.sinks; t <= q - r.window; ++t) {
      std::int64_t& d = death[static_cast<std::size_t>(t)];
      if (!std::binary_search(kept.begin(), kept.end(), t)) {
        d = std::min(d, q);
      } else if (d != std::numeric_limits<std::int64_t>::max()) {
        d = -1;
      }
    }
  }
  return death;
}

/// The bits of a priority of any kind: mostly ties and ordinary numbers, and everything special about doubles.
inline std::uint64_t priority_bits(generator& g) {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63U;
  const std::uint64_t either = g.chance(0.5) ? sign : 0;
  switch (g.integer(0, 11)) {
    case 0:  // NaN, quiet and signalling, any payload
      return either | 0x7ff0000000000000U | (1 + g.bits() % ((std::uint64_t{1} << 52U) - 1));
    case 1:  // infinity
      return either | 0x7ff0000000000000U;
    case 2:  // zero
      return either;
    case 3:  // denormal, the smallest and the largest among them
      return either | g.pick<std::uint64_t>({1U, 2U, 0x000fffffffffffffU, 1 + g.bits() % 0x000fffffffffffffU});
    case 4:  // about 1e308, the largest, the smallest normal
      return either | g.pick<std::uint64_t>({0x7fe1ccf385ebc8a0U, 0x7fefffffffffffffU, 0x0010000000000000U});
    case 5:  // any number at all
      return g.bits();
    case 6:
    case 7:
    case 8: {  // small integers: ties
      const auto value = static_cast<double>(g.integer(-2, 2));
      std::uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      return bits;
    }
    default: {
      const auto value = static_cast<double>(g.normal());
      std::uint64_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      return bits;
    }
  }
}

/// n priorities: of all kinds, or a hard case: all equal, ascending, descending, few distinct.
inline std::vector<double> priorities(generator& g, std::int64_t n) {
  std::vector<double> out(static_cast<std::size_t>(n));
  const std::int64_t kind = g.integer(0, 9);
  const std::uint64_t common = priority_bits(g);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (kind == 0) {
      std::memcpy(&out[i], &common, sizeof(common));
    } else if (kind == 1 || kind == 2) {
      out[i] = static_cast<double>(kind == 1 ? i : out.size() - i);
    } else if (kind == 3) {
      out[i] = static_cast<double>(g.integer(0, 2));
    } else {
      const std::uint64_t bits = priority_bits(g);
      std::memcpy(&out[i], &bits, sizeof(bits));
    }
  }
  return out;
}

/// A length that is prime, odd, tiny or a power of two and its neighbours; at most `largest`.
inline std::int64_t length(generator& g, std::int64_t largest) {
  const std::int64_t n = g.pick<std::int64_t>(
      {0, 1, 2, 3, 5, 7, 8, 11, 13, 15, 16, 17, 31, 32, 33, 37, 63, 64, 65, 67, 101, 127, 128, 129, 197, 257});
  return n <= largest ? n : g.integer(0, largest);
}

}  // namespace kvpop_test
