#include "qwen3/trainable_scorer.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "files.hpp"                    // temporary_directory
#include "kvpop/score/scorer_file.hpp"  // load_scorer
#include "kvpop/train/mlp.hpp"          // mlp_forward
#include "qwen3/blas_product.hpp"       // blas_product
#include "qwen3/error.hpp"              // load_error

namespace {

using namespace qwen3_test;
using qwen3::scorer_plan;
using qwen3::trainable_scorer;

scorer_plan plan_of(kvpop::scorer_kind kind) {
  return {.kind = kind,
          .layers = 3,
          .kv_heads = 2,
          .head_dim = 5,
          .hidden = 7,
          .dk = 3,
          .dv = 4,
          .sinks = 2,
          .window = 9,
          .delay = 6};
}

trainable_scorer scaled(kvpop::scorer_kind kind) {
  trainable_scorer scorer(plan_of(kind), 4);
  std::mt19937 random(1);
  for (float& s : scorer.scales()) s = 0.5F + static_cast<float>(random() % 100U) / 10;
  for (float& v : scorer.values()) v += static_cast<float>(random() % 100U) / 1000;
  return scorer;
}

template <class Pass>
std::vector<float> scores_of(const trainable_scorer& scorer, std::int64_t head, const std::vector<float>& x,
                             std::int64_t n, const Pass& pass) {
  const auto inputs = static_cast<std::size_t>(scorer.plan().inputs());
  std::vector<float> divided = x;
  for (std::size_t i = 0; i < x.size(); ++i)
    divided[i] /= scorer.scales()[static_cast<std::size_t>(head) * inputs + i % inputs];
  std::vector<float> r(static_cast<std::size_t>(n));
  std::vector<std::byte> memory(1 << 20);
  kvpop::carver carver(kvpop::workspace{memory.data(), memory.size()}, "test");
  pass(carver, divided.data(), r.data());
  return r;
}

}  // namespace

TEST_CASE("a saved scorer scores raw inputs as training scored scaled ones, and says what it is") {
  const temporary_directory directory;
  const std::string path = directory / "s.safetensors";
  for (const auto kind : {kvpop::scorer_kind::mlp, kvpop::scorer_kind::mlstm}) {
    CAPTURE(kvpop::name_of(kind));
    const trainable_scorer scorer = scaled(kind);
    scorer.save(path, "rms", 28);
    const kvpop::scorer_file file = kvpop::load_scorer(path);
    CHECK(file.description().kind == kind);
    CHECK(file.description().window == 9);
    CHECK(file.description().sinks == 2);
    CHECK(file.description().delay == (kind == kvpop::scorer_kind::mlp ? 0 : 6));
    CHECK(file.description().target == "rms");
    CHECK(file.description().trained_topk == 28);
    file.check_model(3, 2, 5, 5);
    const scorer_plan& plan = scorer.plan();
    std::mt19937 random(2);
    constexpr std::int64_t n = 30;
    std::vector<float> x(static_cast<std::size_t>(n * plan.inputs()));
    for (float& value : x) value = static_cast<float>(random() % 200U) / 25 - 4;
    for (std::int64_t head = 0; head < plan.heads(); ++head) {
      const kvpop::scorer_layer layer = file.layer(head / 2);
      CHECK(layer.ref().log_gamma(head % 2) == scorer.log_gamma(head));
      const auto r = scores_of(scorer, head, x, n, [&](kvpop::carver& carver, const float* divided, float* out) {
        if (plan.is_mlp()) {
          const auto tape = kvpop::mlp_tape<float>::carve(carver, plan.mlp(), n);
          kvpop::mlp_forward(qwen3::blas_product{}, plan.mlp(), scorer.head(head), divided, plan.inputs(), n, tape,
                             out);
        } else {
          const auto tape = kvpop::mlstm_tape<float>::carve(carver, plan.mlstm(), n);
          kvpop::mlstm_forward(qwen3::blas_product{}, plan.mlstm(), scorer.head(head), divided, plan.inputs(), n,
                               plan.delay, tape, out);
        }
      });
      std::vector<float> memory(static_cast<std::size_t>(layer.ref().memory_size()) + 1);
      layer.ref().reset(memory.data());
      const std::int64_t delay = layer.ref().delay();
      for (std::int64_t q = 0; q < n; ++q) {
        layer.ref().observe(head % 2, q, x.data() + q * plan.inputs(), memory.data());
        if (q < delay) continue;
        const float want =
            layer.ref().score(head % 2, q - delay, x.data() + (q - delay) * plan.inputs(), memory.data());
        CHECK(std::abs(r[static_cast<std::size_t>(q - delay)] - want) <= 1e-4F * (1 + std::abs(want)));
      }
    }
  }
}

TEST_CASE("parameters start the same for the same seed, differ between heads, and all tensors are written") {
  const auto a = trainable_scorer(plan_of(kvpop::scorer_kind::mlstm), 1),
             b = trainable_scorer(plan_of(kvpop::scorer_kind::mlstm), 1),
             c = trainable_scorer(plan_of(kvpop::scorer_kind::mlstm), 2);
  CHECK(a.values() == b.values());
  CHECK(a.values() != c.values());
  CHECK(a.head(0)[0] != a.head(1)[0]);
  scorer_plan plan = plan_of(kvpop::scorer_kind::mlp);
  plan.decay = false;
  const temporary_directory directory;
  trainable_scorer(plan, 1).save(directory / "s.safetensors", "max", 3);
  CHECK_FALSE(kvpop::load_scorer(directory / "s.safetensors").description().has_decay);
  CHECK(trainable_scorer(plan, 1).log_gamma(0) == 0.0F);
}

TEST_CASE("a disk that is full is a failure that names the file") {
  CHECK(message_of<qwen3::load_error>([] {
          trainable_scorer(plan_of(kvpop::scorer_kind::mlp), 1).save("/dev/full", "rms", 1);
        }).find("/dev/full") != std::string::npos);
}
