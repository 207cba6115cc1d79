#include "qwen3/norm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kvpop/core/thread_pool.hpp"  // thread_pool

TEST_CASE("RMS norm agrees with sums in double, in place and not, for any number of threads") {
  std::mt19937 random(21);
  std::normal_distribution<float> normal;
  kvpop::thread_pool pool(3);
  constexpr std::int64_t sizes[] = {1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 1031};
  for (int draw = 0; draw < 1000; ++draw) {
    const std::int64_t n = sizes[random() % std::size(sizes)];
    const auto rows = static_cast<std::int64_t>(random() % 5);
    const double eps = random() % 2 == 0 ? 1e-6 : 1e-5;
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 41) - 20);
    std::vector<float> x(static_cast<std::size_t>(rows * n)), weight(static_cast<std::size_t>(n));
    for (float& value : x) value = normal(random) * scale;
    for (float& value : weight) value = normal(random);
    std::vector<float> y(x.size());
    qwen3::rms_norm(pool.context(), x.data(), rows, n, weight.data(), eps, y.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * n;
      double squares = 0;
      for (std::int64_t i = 0; i < n; ++i) squares += static_cast<double>(row[i]) * static_cast<double>(row[i]);
      const double root = std::sqrt(squares / static_cast<double>(n) + eps);
      for (std::int64_t i = 0; i < n; ++i) {
        const double expected =
            static_cast<double>(row[i]) / root * static_cast<double>(weight[static_cast<std::size_t>(i)]);
        CHECK(std::abs(static_cast<double>(y[static_cast<std::size_t>(r * n + i)]) - expected) <=
              1e-6 * std::abs(expected));
      }
    }
    qwen3::rms_norm(kvpop::host_context(), x.data(), rows, n, weight.data(), eps, x.data());
    CHECK(x == y);
  }
}

TEST_CASE("many rows are split over the threads and none is left out") {
  kvpop::thread_pool pool(2);
  constexpr std::int64_t rows = 1031, n = 257;  // several tasks
  std::vector<float> x(rows * n), weight(n, 1.0F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / n + 1);
  qwen3::rms_norm(pool.context(), x.data(), rows, n, weight.data(), 0.0, x.data());
  for (const float value : x) REQUIRE(std::abs(value - 1.0F) < 1e-6F);
}
