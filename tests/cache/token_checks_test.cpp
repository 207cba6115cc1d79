#include "kvpop/cache/token_checks.hpp"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "kvpop/cache/append.hpp"
#include "kvpop/score/h2o.hpp"
#include "kvpop/score/key_norm.hpp"
#include "kvpop/score/mlp.hpp"
#include "kvpop/score/mlstm.hpp"
#include "kvpop/score/recency.hpp"
#include "kvpop/score/replay.hpp"
#include "kvpop/score/snapkv.hpp"
#include "kvpop/score/tova.hpp"
#include "support/cache_block.hpp"
#include "support/generators.hpp"
#include "support/probe_scorer.hpp"
#include "support/token_stream.hpp"

// Every way to call append wrongly: the message, and that not one byte of the cache has changed.

using namespace kvpop_test;

namespace {

constexpr kvpop::cache_shape shape{.sequences = 2, .kv_heads = 3, .memory = 40};
constexpr kvpop::budget limits{.sinks = 1, .window = 4, .topk = 2};
using chunk = kvpop::chunk_view<const float>;
using block = cache_block<float, 3, 5>;

// A cache that is in use, and good arguments to spoil.
struct fixture {
  generator random{50};
  block cache{shape, limits};
  token_stream<float> stream{random, 2, 20, 3, 3, 5};
  chunk k = stream.keys(0, 4);
  chunk v = stream.values(0, 4);

  fixture() {
    kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, stream.keys(0, 20), stream.values(0, 20));
  }

  template <class Scorer = echo_scorer>
  std::string refused(const chunk& keys, const chunk& values, const Scorer& scorer = {},
                      const kvpop::append_params& params = {}) {
    const std::vector<std::byte> before = cache.snapshot();
    const std::string message =
        message_of([&] { kvpop::append(kvpop::host_context(), cache.ref(), scorer, keys, values, params); });
    CHECK(before == cache.snapshot());
    return message;
  }
};

chunk with_extents(const chunk& x, const std::array<index_t, 4>& extents) { return {x.data(), extents, x.strides()}; }

}  // namespace

TEST_CASE_FIXTURE(fixture, "good arguments are taken") {
  kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, k, v);
  CHECK(cache.ref().seen(0) == 24);
}

TEST_CASE_FIXTURE(fixture, "extents that do not fit, axis by axis") {
  CHECK(refused(with_extents(k, {3, 4, 3, 3}), v) == "kvpop: append: k.extent(sequence) is 3; expected 2");
  CHECK(refused(with_extents(k, {0, 4, 3, 3}), v) == "kvpop: append: k.extent(sequence) is 0; expected 2");
  CHECK(refused(with_extents(k, {2, 4, 2, 3}), v) == "kvpop: append: k.extent(head) is 2; expected 3");
  CHECK(refused(with_extents(k, {2, 4, 3, 5}), v) == "kvpop: append: k.extent(dim) is 5; expected 3");
  CHECK(refused(k, with_extents(v, {1, 4, 3, 5})) == "kvpop: append: v.extent(sequence) is 1; expected 2");
  CHECK(refused(k, with_extents(v, {2, 5, 3, 5})) == "kvpop: append: v.extent(token) is 5; expected 4");
  CHECK(refused(k, with_extents(v, {2, 4, 6, 5})) == "kvpop: append: v.extent(head) is 6; expected 3");
  CHECK(refused(k, with_extents(v, {2, 4, 3, 3})) == "kvpop: append: v.extent(dim) is 3; expected 5");
  CHECK(refused(with_extents(k, {2, -1, 3, 3}), with_extents(v, {2, -1, 3, 5})).find("-1") != std::string::npos);
}

TEST_CASE_FIXTURE(fixture, "a last axis that is not contiguous, and views without data") {
  const auto n = k.strides();
  CHECK(refused(chunk(k.data(), k.extents(), {n[0], n[1], n[2], 2}), v) ==
        "kvpop: append: k.stride(dim) is 2; it must be 1");
  CHECK(refused(k, chunk(v.data(), v.extents(), {n[0], n[1], n[2], 0})) ==
        "kvpop: append: v.stride(dim) is 0; it must be 1");
  CHECK(refused(chunk(nullptr, k.extents()), v) == "kvpop: append: k has no data");
  CHECK(refused(k, chunk(nullptr, v.extents())) == "kvpop: append: v has no data");
}

TEST_CASE_FIXTURE(fixture, "counts that do not fit") {
  const auto with = [&](const std::vector<index_t>& counts) {
    return refused(k, v, echo_scorer{}, {.counts = counts, .evicted = {}});
  };
  CHECK(with({4}) == "kvpop: append: counts has 1 entries; the cache has 2 sequences");
  CHECK(with({4, 4, 4}) == "kvpop: append: counts has 3 entries; the cache has 2 sequences");
  CHECK(with({0, 5}) == "kvpop: append: counts[1] is 5; it must be at least 0 and at most the chunk's 4 tokens");
  CHECK(with({-1, 4}) == "kvpop: append: counts[0] is -1; it must be at least 0 and at most the chunk's 4 tokens");
}

TEST_CASE_FIXTURE(fixture, "an output of evictions of another shape") {
  std::vector<kvpop::eviction> out(100, {-3, -3});
  const auto with = [&](const std::array<index_t, 3>& extents) {
    kvpop::append_params params;
    params.evicted = {out.data(), extents};
    return refused(k, v, echo_scorer{}, params);
  };
  CHECK(with({2, 3, 3}) == "kvpop: append: evicted.extent(token) is 3; expected 4");
  CHECK(with({1, 4, 3}) == "kvpop: append: evicted.extent(sequence) is 1; expected 2");
  CHECK(with({2, 4, 4}) == "kvpop: append: evicted.extent(head) is 4; expected 3");
  CHECK(out == std::vector<kvpop::eviction>(100, {-3, -3}));
}

TEST_CASE_FIXTURE(fixture, "a scorer made for another cache") {
  const std::vector<float> w(4096, 0.5F);
  const auto mlp = [&](const kvpop::scorer_input& input, index_t delay) {
    return kvpop::mlp_ref(input, {2, w.data(), w.data(), w.data(), w.data(), nullptr}, delay);
  };
  CHECK(refused(k, v, mlp({2, 3, 5}, 0)) == "kvpop: append: scorer.kv_heads is 2; the cache has 3");
  CHECK(refused(k, v, mlp({3, 5, 5}, 0)) == "kvpop: append: scorer.key_dim is 5; the cache has 3");
  CHECK(refused(k, v, mlp({3, 3, 3}, 0)) == "kvpop: append: scorer.value_dim is 3; the cache has 5");
  CHECK(refused(k, v, mlp({3, 3, 5}, 5)) ==
        "kvpop: append: scorer.delay is 5; it must be at least 0 and at most budget.window = 4");
  CHECK(refused(k, v, echo_scorer{.lag = -1}) ==
        "kvpop: append: scorer.delay is -1; it must be at least 0 and at most budget.window = 4");
  CHECK(refused(k, v, kvpop::key_norm(5)) == "kvpop: append: scorer.key_dim is 5; the cache has 3");
  const std::vector<index_t> deaths(20);
  CHECK(refused(k, v, kvpop::replay({deaths.data(), {2, 10}})) ==
        "kvpop: append: scorer.kv_heads is 2; the cache has 3");

  kvpop::mlstm_parameters p;
  p.dk = 5;
  p.dv = 7;  // 5 * 7 + 5 + 1 = 41 floats
  p.wk = p.wq = p.wv = p.wo = p.wf = p.wi = p.a = p.wout = p.bf = p.bi = p.b = w.data();
  CHECK(refused(k, v, kvpop::mlstm_ref({3, 3, 5}, p, 4)) ==
        "kvpop: append: scorer.memory_size is 41; the cache was made with cache_shape.memory = 40");
  p.dv = 6;
  CHECK(refused(k, v, kvpop::mlstm_ref({3, 3, 5}, p, 5)) ==
        "kvpop: append: scorer.delay is 5; it must be at least 0 and at most budget.window = 4");
  CHECK(refused(k, v, kvpop::mlstm_ref({1, 3, 5}, p, 4)) == "kvpop: append: scorer.kv_heads is 1; the cache has 3");
}

TEST_CASE_FIXTURE(fixture, "several tokens at once for a scorer that follows attention") {
  const std::string wanted =
      "kvpop: append: k.extent(token) is 4; it must be at most 1 for a scorer that follows attention weights; prefill "
      "takes many";
  CHECK(refused(k, v, kvpop::tova{}) == wanted);
  CHECK(refused(k, v, kvpop::h2o{}) == wanted);
  const kvpop::snapkv snap(2, 3);
  block roomy({.sequences = 2, .kv_heads = 3, .memory = snap.memory_size(), .prompt = 30}, limits);
  const std::vector<std::byte> before = roomy.snapshot();
  CHECK(message_of([&] { kvpop::append(kvpop::host_context(), roomy.ref(), snap, k, v); }) == wanted);
  CHECK(before == roomy.snapshot());
  CHECK(refused(stream.keys(0, 1), stream.values(0, 1), snap) ==
        "kvpop: append: scorer.memory_size is " + std::to_string(snap.memory_size()) +
            "; the cache was made with cache_shape.memory = 40");
}

TEST_CASE_FIXTURE(fixture, "a prompt that is longer than the slots that hold it whole") {
  const block whole({.sequences = 2, .kv_heads = 3, .memory = 0, .prompt = 13}, limits);
  kvpop::append(kvpop::host_context(), whole.ref(), echo_scorer{}, stream.keys(0, 11), stream.values(0, 11));
  CHECK(whole.ref().held(0, 2) == 11);
  const std::vector<std::byte> before = whole.snapshot();
  CHECK(message_of([&] { kvpop::append(kvpop::host_context(), whole.ref(), echo_scorer{}, k, v); }) ==
        "kvpop: append: sequence 0 would hold 15 tokens of its prompt; cache_shape.prompt is 13");
  const std::vector<index_t> counts = {2, 3};
  CHECK(message_of([&] {
          kvpop::append(kvpop::host_context(), whole.ref(), echo_scorer{}, k, v, {.counts = counts, .evicted = {}});
        }) == "kvpop: append: sequence 1 would hold 14 tokens of its prompt; cache_shape.prompt is 13");
  CHECK(before == whole.snapshot());
  kvpop::append(kvpop::host_context(), whole.ref(), echo_scorer{}, stream.keys(11, 2), stream.values(11, 2));
  CHECK(whole.ref().held(1, 0) == 13);
}

TEST_CASE_FIXTURE(fixture, "the same checks for a single token") {
  using step = kvpop::step_view<const float>;
  const step key(k.data(), {2, 3, 3}, {k.strides()[0], 3, 1});
  const step value(v.data(), {2, 3, 5}, {v.strides()[0], 5, 1});
  const std::vector<std::byte> before = cache.snapshot();
  const auto refused_step = [&](const step& a, const step& b) {
    return message_of([&] { kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, a, b); });
  };
  CHECK(refused_step(step(k.data(), {1, 3, 3}), value) == "kvpop: append: k.extent(sequence) is 1; expected 2");
  CHECK(refused_step(key, step(v.data(), {2, 4, 5})) == "kvpop: append: v.extent(head) is 4; expected 3");
  CHECK(refused_step(step(k.data(), {2, 3, 3}, {9, 3, 4}), value) == "kvpop: append: k.stride(dim) is 4; it must be 1");
  CHECK(refused_step(step(), value) == "kvpop: append: k.extent(sequence) is 0; expected 2");
  CHECK(before == cache.snapshot());
  CHECK(refused_step(key, value) == "no error");
}

TEST_CASE("with one component the stride of the last axis is of no interest") {
  const cache_block<float, 1, 1> cache({.sequences = 1, .kv_heads = 2}, limits);
  const std::vector<float> x = {1, 0, 0, 2};
  const chunk k(x.data(), {1, 1, 2, 1}, {9, 9, 3, 7});
  kvpop::append(kvpop::host_context(), cache.ref(), echo_scorer{}, k, k);
  CHECK(cache.ref().head(0, 0).keys[0] == 1);
  CHECK(cache.ref().head(0, 1).keys[0] == 2);
}

TEST_CASE("counts: all tokens where none are given") {
  const std::vector<index_t> counts = {3, 0};
  CHECK(kvpop::count_of(counts, 0, 5) == 3);
  CHECK(kvpop::count_of(counts, 1, 5) == 0);
  CHECK(kvpop::count_of({}, 1, 5) == 5);
}
