#include "kvpop/attention/merge.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kvpop/core/thread_pool.hpp"    // thread_pool
#include "support/attention_oracle.hpp"  // attend, matrix
#include "support/generators.hpp"        // generator, draws
#include "support/message_of.hpp"        // message_of

// Two partial results against attention over the union of their keys, in double.

using kvpop::index_t;
using kvpop_test::generator;
using kvpop_test::message_of;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// What merge_attention is given and what it must give: [sequences, heads, dim] dense.
struct parts {
  index_t sequences, heads, dim;
  std::vector<float> out_a, out_b, lse_a, lse_b;
  std::vector<double> out, lse;
  double largest_value = 0;

  [[nodiscard]] kvpop::step_view<const float> rows(const std::vector<float>& x) const {
    return {x.data(), {sequences, heads, dim}};
  }
  [[nodiscard]] kvpop::lse_view<const float> sums(const std::vector<float>& x) const {
    return {x.data(), {sequences, heads}};
  }
};

void append(std::vector<float>& to, const std::vector<double>& from) {
  for (const double x : from) to.push_back(static_cast<float>(x));
}

parts draw(generator& random) {
  parts p;
  p.sequences = random.integer(1, 3);
  p.heads = random.integer(1, 5);
  p.dim = random.pick<index_t>({1, 2, 7, 16, 17, 33});
  const double spread = random.pick({0.1, 1.0, 30.0, 1e4});
  for (index_t row = 0; row < p.sequences * p.heads; ++row) {
    const index_t first = random.integer(0, 9), second = random.integer(0, 9);
    kvpop_test::matrix k, v;
    for (index_t i = 0; i < first + second; ++i) {
      k.push_back({spread * static_cast<double>(random.normal())});
      v.emplace_back();
      for (index_t d = 0; d < p.dim; ++d) v.back().push_back(static_cast<double>(random.normal()));
      for (const double x : v.back()) p.largest_value = std::fmax(p.largest_value, std::fabs(x));
    }
    const auto over = [&](auto visible) {
      return kvpop_test::attend({1.0}, k, v, static_cast<std::size_t>(p.dim), 1.0, 0.0, visible);
    };
    const auto a = over([&](std::int64_t i) { return i < first; });
    const auto b = over([&](std::int64_t i) { return i >= first; });
    const auto both = over([](std::int64_t) { return true; });
    append(p.out_a, a.out);
    append(p.out_b, b.out);
    p.lse_a.push_back(static_cast<float>(a.lse));
    p.lse_b.push_back(static_cast<float>(b.lse));
    p.out.insert(p.out.end(), both.out.begin(), both.out.end());
    p.lse.push_back(both.lse);
  }
  return p;
}

}  // namespace

TEST_CASE("two parts give attention over all keys, in either order, in place, for any number of threads") {
  kvpop::thread_pool pool(3);
  for (int i = 0; i < kvpop_test::draws(1000); ++i) {
    generator random(4'100'000 + static_cast<std::uint64_t>(i));
    const parts p = draw(random);
    std::vector<float> out(p.out_a.size(), 99.0F), lse(p.lse_a.size(), 99.0F);
    const kvpop::step_view<float> to(out.data(), {p.sequences, p.heads, p.dim});
    const kvpop::lse_view<float> sums(lse.data(), {p.sequences, p.heads});
    kvpop::merge_attention({}, p.rows(p.out_a), p.sums(p.lse_a), p.rows(p.out_b), p.sums(p.lse_b), to, sums);
    // A rounded lse moves the shares by as much as its last bit is worth.
    for (std::size_t r = 0; r < lse.size(); ++r) {
      const double ulp = std::isinf(p.lse[r]) ? 0.0 : std::fabs(p.lse[r]) * 0x1p-22;
      for (index_t d = 0; d < p.dim; ++d) {
        const std::size_t at = r * static_cast<std::size_t>(p.dim) + static_cast<std::size_t>(d);
        REQUIRE(std::fabs(static_cast<double>(out[at]) - p.out[at]) <= (2e-6 + 2 * ulp) * p.largest_value);
      }
      if (std::isinf(p.lse[r])) {
        REQUIRE(lse[r] == -infinity);
      } else {
        REQUIRE(std::fabs(static_cast<double>(lse[r]) - p.lse[r]) <= 1e-6 + ulp);
      }
    }
    std::vector<float> other = p.out_b, other_lse = p.lse_b;  // in place of part b, b first, by threads
    kvpop::merge_attention(pool.context(), p.rows(other), p.sums(other_lse), p.rows(p.out_a), p.sums(p.lse_a),
                           kvpop::step_view<float>(other.data(), {p.sequences, p.heads, p.dim}),
                           kvpop::lse_view<float>(other_lse.data(), {p.sequences, p.heads}));
    REQUIRE(other == out);
    REQUIRE(other_lse == lse);
  }
}

TEST_CASE("a part without keys leaves the other as it is, whatever its output holds; two give zeros") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> some{1.5F, -2.25F, 3e30F}, rubbish{nan, infinity, 7.0F};
  for (const float lse_some : {0.0F, -87.5F, 3e38F, -3e38F}) {
    std::vector<float> out(3, 99.0F);
    float lse = 99.0F;
    const float none = -infinity;
    const auto merge = [&](const std::vector<float>& a, const float& lse_a, const std::vector<float>& b,
                           const float& lse_b) {
      kvpop::merge_attention(
          {}, kvpop::step_view<const float>(a.data(), {1, 1, 3}), kvpop::lse_view<const float>(&lse_a, {1, 1}),
          kvpop::step_view<const float>(b.data(), {1, 1, 3}), kvpop::lse_view<const float>(&lse_b, {1, 1}),
          kvpop::step_view<float>(out.data(), {1, 1, 3}), kvpop::lse_view<float>(&lse, {1, 1}));
    };
    merge(some, lse_some, rubbish, none);
    CHECK(out == some);
    CHECK(lse == lse_some);
    merge(rubbish, none, some, lse_some);
    CHECK(out == some);
    CHECK(lse == lse_some);
    merge(rubbish, none, rubbish, none);
    CHECK(out == std::vector<float>(3, 0.0F));
    CHECK(lse == -infinity);
    merge(rubbish, lse_some, some, lse_some);  // a NaN that has weight is not hidden
    CHECK(std::isnan(out[0]));
  }
}

TEST_CASE("strided rows of 16 bits are read and written in place") {
  std::vector<kvpop::bfloat16> a(2 * 50, kvpop::bfloat16(2.0F)), out(2 * 50, kvpop::bfloat16(77.0F));
  const std::vector<kvpop::float16> b(2 * 3 * 5, kvpop::float16(4.0F));
  const std::vector<float> zero(6, 0.0F);
  std::vector<float> lse(6);
  const kvpop::lse_view<const float> equal(zero.data(), {2, 3});
  kvpop::merge_attention({}, kvpop::step_view<const kvpop::bfloat16>(a.data() + 1, {2, 3, 5}, {50, 11, 1}), equal,
                         kvpop::step_view<const kvpop::float16>(b.data(), {2, 3, 5}), equal,
                         kvpop::step_view<kvpop::bfloat16>(out.data() + 1, {2, 3, 5}, {50, 11, 1}),
                         kvpop::lse_view<float>(lse.data(), {2, 3}));
  for (index_t i = 0; i < 100; ++i) {
    const index_t in_row = i % 50 - 1;
    const bool written = in_row >= 0 && in_row < 33 && in_row % 11 < 5;
    CHECK(static_cast<float>(out[static_cast<std::size_t>(i)]) == (written ? 3.0F : 77.0F));
  }
  for (const float x : lse) CHECK(x == doctest::Approx(std::log(2.0)));
}

TEST_CASE("extents that differ, rows in pieces and missing data are named, and nothing is written") {
  std::vector<float> data(100, 1.0F), out(24, 5.0F), lse(6, 5.0F);
  using rows = kvpop::step_view<const float>;
  using sums = kvpop::lse_view<const float>;
  const float* x = data.data();
  const rows good(x, {2, 3, 4});
  const sums fine(x, {2, 3});
  const kvpop::step_view<float> to(out.data(), {2, 3, 4});
  const kvpop::lse_view<float> to_lse(lse.data(), {2, 3});
  const auto refused = [&](const rows& a, const sums& lse_a, const rows& b, const sums& lse_b, const auto& into,
                           const auto& lse_into) {
    return message_of([&] { kvpop::merge_attention({}, a, lse_a, b, lse_b, into, lse_into); });
  };
  const std::string verb = "kvpop: merge_attention: ";
  CHECK(refused(rows(x, {1, 3, 4}), fine, good, fine, to, to_lse) == verb + "out_a.extent(sequence) is 1; expected 2");
  CHECK(refused(good, fine, rows(x, {2, 4, 4}), fine, to, to_lse) == verb + "out_b.extent(head) is 4; expected 3");
  CHECK(refused(good, sums(x, {3, 3}), good, fine, to, to_lse) == verb + "lse_a.extent(sequence) is 3; expected 2");
  CHECK(refused(good, fine, good, sums(x, {2, 2}), to, to_lse) == verb + "lse_b.extent(head) is 2; expected 3");
  CHECK(refused(rows(x, {2, 3, 5}), fine, good, fine, to, to_lse) == verb + "out_a.extent(dim) is 5; expected 4");
  CHECK(refused(good, fine, rows(x, {2, 3, 3}), fine, to, to_lse) == verb + "out_b.extent(dim) is 3; expected 4");
  CHECK(refused(rows(x, {2, 3, 4}, {12, 4, 2}), fine, good, fine, to, to_lse) ==
        verb + "out_a.stride(dim) is 2; it must be 1");
  CHECK(refused(good, fine, rows(x, {2, 3, 4}, {12, 4, 0}), fine, to, to_lse) ==
        verb + "out_b.stride(dim) is 0; it must be 1");
  CHECK(refused(rows(nullptr, {2, 3, 4}), fine, good, fine, to, to_lse) == verb + "out_a has no data");
  CHECK(refused(good, fine, rows(nullptr, {2, 3, 4}), fine, to, to_lse) == verb + "out_b has no data");
  CHECK(refused(good, sums(nullptr, {2, 3}), good, fine, to, to_lse) == verb + "lse_a has no data");
  CHECK(refused(good, fine, good, sums(nullptr, {2, 3}), to, to_lse) == verb + "lse_b has no data");
  CHECK(refused(good, fine, good, fine, kvpop::step_view<float>(nullptr, {2, 3, 4}), to_lse) ==
        verb + "out has no data");
  CHECK(refused(good, fine, good, fine, kvpop::step_view<float>(out.data(), {2, 3, 4}, {12, 4, 3}), to_lse) ==
        verb + "out.stride(dim) is 3; it must be 1");
  CHECK(refused(good, fine, good, fine, to, kvpop::lse_view<float>(nullptr, {2, 3})) == verb + "lse has no data");
  CHECK(refused(good, fine, good, fine, to, kvpop::lse_view<float>(lse.data(), {2, 4})) ==
        verb + "lse.extent(head) is 4; expected 3");
  CHECK(out == std::vector<float>(24, 5.0F));
  CHECK(lse == std::vector<float>(6, 5.0F));
  CHECK(refused(rows(nullptr, {0, 3, 4}), sums(nullptr, {0, 3}), rows(nullptr, {0, 3, 4}), sums(nullptr, {0, 3}),
                kvpop::step_view<float>(nullptr, {0, 3, 4}), kvpop::lse_view<float>(nullptr, {0, 3})) == "no error");
}
