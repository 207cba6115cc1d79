#include "qwen3/rope.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>
#include <numeric>
#include <random>
#include <vector>

#include "kvpop/core/dtype.hpp"        // bfloat16, float16
#include "kvpop/core/thread_pool.hpp"  // thread_pool

namespace {

qwen3::model_config config(std::int64_t head_dim, double theta) {
  qwen3::model_config result;
  result.head_dim = head_dim;
  result.rope_theta = theta;
  return result;
}

double relative(double a, double b) { return std::abs(a - b) / std::abs(b); }

}  // namespace

TEST_CASE("frequencies fall from 1 by equal factors") {
  const auto frequencies = qwen3::rope_frequencies(config(128, 1e6));
  REQUIRE(frequencies.size() == 64);
  CHECK(frequencies[0] == 1.0F);
  CHECK(relative(static_cast<double>(frequencies[32]), 1e-3) < 1e-7);
  for (std::size_t i = 0; i < 64; ++i) {
    const double expected = std::exp(-std::log(1e6) * static_cast<double>(i) / 64);
    CHECK(relative(static_cast<double>(frequencies[i]), expected) < 1e-7);
  }
}

TEST_CASE("frequencies of a model that was cast whole are rounded with it") {
  const auto exact = qwen3::rope_frequencies(config(64, 1e4));
  const auto bf16 = qwen3::rope_frequencies(config(64, 1e4), qwen3::weight_type::bf16);
  const auto f16 = qwen3::rope_frequencies(config(64, 1e4), qwen3::weight_type::f16);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CHECK(bf16[i] == static_cast<float>(kvpop::bfloat16(exact[i])));
    CHECK(f16[i] == static_cast<float>(kvpop::float16(exact[i])));
  }
  CHECK(bf16 != exact);
  CHECK(f16 != exact);
}

TEST_CASE("Llama 3's scaling by wavelengths, as transformers words it") {
  auto scaled = config(128, 500000.0);
  scaled.rope_scaling = {.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_positions = 8192};
  const auto plain = qwen3::rope_frequencies(config(128, 500000.0)), got = qwen3::rope_frequencies(scaled);
  int slow = 0, between = 0, fast = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double frequency = std::exp(-std::log(500000.0) * static_cast<double>(i) / 64);
    const double wavelength = 2 * std::numbers::pi / frequency;
    const double longest = 8192.0 / 1, shortest = 8192.0 / 4;
    double expected = frequency;
    if (wavelength > longest) {
      expected = frequency / 8;
      ++slow;
    } else if (wavelength < shortest) {
      ++fast;
    } else {
      const double smooth = (8192.0 / wavelength - 1) / (4 - 1);
      expected = (1 - smooth) * frequency / 8 + smooth * frequency;
      ++between;
    }
    CHECK(relative(static_cast<double>(got[i]), expected) < 1e-6);
  }
  CHECK(slow > 0);
  CHECK(between > 0);
  CHECK(fast > 0);
}

TEST_CASE("a head turns as complex numbers do, each pair by position times frequency") {
  std::mt19937 random(31);
  std::normal_distribution<float> normal;
  kvpop::thread_pool pool(2);
  constexpr std::int64_t dims[] = {2, 6, 34, 64, 128};
  for (int draw = 0; draw < 1000; ++draw) {
    const std::int64_t head_dim = dims[random() % std::size(dims)], half = head_dim / 2;
    const auto tokens = static_cast<std::int64_t>(random() % 4), heads = static_cast<std::int64_t>(1 + random() % 3);
    const auto first = static_cast<std::int64_t>(random() % 100'000);
    const auto frequencies = qwen3::rope_frequencies(config(head_dim, 10000));
    std::vector<float> cosines(static_cast<std::size_t>(tokens * half)), sines(cosines.size());
    std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
    std::iota(positions.begin(), positions.end(), first);
    qwen3::rope_angles(frequencies, positions, cosines.data(), sines.data());
    std::vector<float> x(static_cast<std::size_t>(tokens * heads * head_dim));
    for (float& value : x) value = normal(random);
    const auto before = x;
    qwen3::rotate(pool.context(), x.data(), tokens, heads, head_dim, cosines.data(), sines.data());
    double worst = 0;
    for (std::int64_t row = 0; row < tokens * heads; ++row) {
      for (std::int64_t i = 0; i < half; ++i) {
        const auto low = static_cast<std::size_t>(row * head_dim + i),
                   high = static_cast<std::size_t>(row * head_dim + i + half);
        // The angle itself is a product in f32, as the models were trained with.
        const float angle = static_cast<float>(first + row / heads) * frequencies[static_cast<std::size_t>(i)];
        const std::complex<double> turned =
            std::complex<double>(before[low], before[high]) * std::polar(1.0, static_cast<double>(angle));
        worst = std::max({worst, std::abs(turned.real() - static_cast<double>(x[low])),
                          std::abs(turned.imag() - static_cast<double>(x[high]))});
      }
    }
    CHECK(worst < 1e-6);
  }
}

TEST_CASE("position 0 changes nothing, and threads change no bit") {
  constexpr std::int64_t tokens = 67, heads = 17, head_dim = 128;  // several tasks
  const auto frequencies = qwen3::rope_frequencies(config(head_dim, 10000));
  std::vector<float> cosines(tokens * head_dim / 2), sines(cosines.size()), x(tokens * heads * head_dim);
  std::vector<std::int64_t> positions(static_cast<std::size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  qwen3::rope_angles(frequencies, positions, cosines.data(), sines.data());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 48;
  const auto before = x;
  auto alone = x;
  kvpop::thread_pool pool(2);
  qwen3::rotate(pool.context(), x.data(), tokens, heads, head_dim, cosines.data(), sines.data());
  qwen3::rotate(kvpop::host_context(), alone.data(), tokens, heads, head_dim, cosines.data(), sines.data());
  CHECK(std::memcmp(x.data(), alone.data(), x.size() * sizeof(float)) == 0);
  CHECK(std::memcmp(x.data(), before.data(), heads * head_dim * sizeof(float)) == 0);
  CHECK(std::memcmp(x.data(), before.data(), x.size() * sizeof(float)) != 0);
}
