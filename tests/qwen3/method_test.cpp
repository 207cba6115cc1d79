#include "qwen3/method.hpp"

#include <doctest/doctest.h>

#include <string>

#include "files.hpp"        // message_of
#include "qwen3/error.hpp"  // usage_error

namespace {

using namespace qwen3_test;
using kvpop::budget;
using qwen3::method;
using qwen3::plan_method;
using qwen3::usage_error;

const std::string notebook = KVPOP_MODELS "/notebook";
constexpr qwen3::model_shape notebook_shape{4, 2, 64};

budget limits(method m, std::int64_t entries, const qwen3::method_settings& settings = {}) {
  return plan_method(m, entries, settings, {}, notebook_shape).limits;
}

std::string refusal(method m, std::int64_t entries, const qwen3::method_settings& settings = {},
                    const qwen3::scorer_set& scorers = {}) {
  return message_of<usage_error>([&] { plan_method(m, entries, settings, scorers, notebook_shape); });
}

}  // namespace

TEST_CASE("names and methods are one to one") {
  std::string names;
  for (const method m : qwen3::all_methods()) {
    CHECK(qwen3::method_of(qwen3::name_of(m)) == m);
    names += std::string(qwen3::name_of(m)) + " ";
  }
  CHECK(names == "full streaming random keynorm tova h2o snapkv kvpop-mlp kvpop oracle ");
  CHECK(message_of<usage_error>([] { qwen3::method_of("kvpopp"); }).find("no method is called \"kvpopp\"") == 0);
}

TEST_CASE("budgets weigh the same bytes whatever the method") {
  CHECK(limits(method::streaming, 4096) == budget{4, 4092, 0});
  CHECK(limits(method::streaming, 128, {.sinks = 1, .window = 32}) == budget{1, 127, 0});
  CHECK(limits(method::random, 4096) == budget{4, 256, 3836});
  CHECK(limits(method::key_norm, 128, {.sinks = 2, .window = 30}) == budget{2, 30, 96});
  CHECK(limits(method::tova, 128, {.sinks = 2, .window = 30}) == budget{0, 2, 126});
  CHECK(limits(method::h2o, 128) == budget{4, 64, 60});
  CHECK(limits(method::h2o, 9) == budget{4, 4, 1});
  CHECK(limits(method::snapkv, 128) == budget{4, 32, 92});
  CHECK(limits(method::full, 77) == budget{0, 77, 0});
}

TEST_CASE("the notebook's scorers: sinks and window from the file, three entries charged for the mLSTM") {
  const qwen3::scorer_set scorers = qwen3::load_scorers(notebook, "", notebook_shape);
  const auto plan = [&](method m, const qwen3::method_settings& settings) {
    return plan_method(m, 128, settings, scorers, notebook_shape);
  };
  CHECK(plan(method::kvpop, {}).limits == budget{4, 32, 89});
  CHECK(plan(method::kvpop, {}).charge == 3);  // 273 floats of memory, 512 bytes an entry
  CHECK(plan(method::kvpop_mlp, {}).limits == budget{4, 32, 92});
  CHECK(plan(method::random, {}).limits == budget{4, 32, 92});  // protects what the scorers protect
  CHECK(plan(method::kvpop, {.sinks = 0, .window = 40}).limits == budget{0, 40, 85});
  CHECK(plan(method::kvpop, {.sinks = {}, .window = {}, .dtype = qwen3::cache_dtype::bf16}).charge == 5);
  CHECK(qwen3::arithmetic(plan(method::kvpop, {})) ==
        "128 entries a head = 4 sinks + 32 window + 89 long-range + 3 for the scorer's memory");
}

TEST_CASE("a budget that is too small is refused with its arithmetic") {
  const qwen3::scorer_set scorers = qwen3::load_scorers(notebook, "", notebook_shape);
  CHECK(
      refusal(method::kvpop, 39, {}, scorers) ==
      "kvpop: a budget of 39 entries a head is too small; it must be at least 4 sinks + 32 window + 3 for the scorer's "
      "memory + 1 long-range = 40");
  CHECK(plan_method(method::kvpop, 40, {}, scorers, notebook_shape).limits == budget{4, 32, 1});
  CHECK(
      refusal(method::random, 260) ==
      "random: a budget of 260 entries a head is too small; it must be at least 4 sinks + 256 window + 1 long-range = "
      "261");
  CHECK(refusal(method::streaming, 4).find("4 sinks + 1 window = 5") != std::string::npos);
  CHECK(refusal(method::tova, 2).find("= 3") != std::string::npos);
  CHECK(refusal(method::h2o, 8).find("4 sinks + 4 window + 1 long-range = 9") != std::string::npos);
  CHECK(refusal(method::snapkv, 36).find("= 37") != std::string::npos);
  CHECK(refusal(method::random, -5) == "the budget is -5; it must be in 1 .. 2147483647");
  CHECK(refusal(method::random, 300, {.sinks = -1, .window = {}}).find("--sinks is -1") == 0);
  CHECK(refusal(method::random, 300, {.sinks = {}, .window = 0}).find("--window is 0") == 0);
  CHECK(refusal(method::random, 300, {.sinks = INT64_MAX, .window = 1}).find("--sinks is 9223372036854775807") == 0);
}

TEST_CASE("a learned method needs its scorer, and the scorer its window and its model") {
  CHECK(refusal(method::kvpop, 128).find("method kvpop needs a scorer") == 0);
  const qwen3::scorer_set scorers = qwen3::load_scorers(notebook, "", notebook_shape);
  CHECK(refusal(method::kvpop, 128, {.sinks = {}, .window = 31}, scorers).find("--window is 31") == 0);
  const auto load = [](qwen3::model_shape shape) {
    return message_of<std::exception>([&] { qwen3::load_scorers(notebook, "", shape); });
  };
  CHECK(load({5, 2, 64}).find("scorer of another model: layers is 4 in the file and 5 in the model") !=
        std::string::npos);
  CHECK(load({4, 4, 64}).find("kv_heads is 2 in the file and 4") != std::string::npos);
  CHECK(load({4, 2, 128}).find("key_dim is 64 in the file and 128") != std::string::npos);
}

TEST_CASE("a scorer of the user's stands in for its kind") {
  const std::string own = notebook + "/scorers/kvpop-mlp.safetensors";
  const qwen3::scorer_set scorers = qwen3::load_scorers("/nowhere", own, notebook_shape);
  CHECK(scorers.of(method::kvpop_mlp) != nullptr);
  CHECK(scorers.of(method::kvpop) == nullptr);
  CHECK(scorers.of(method::random) == nullptr);
  CHECK(scorers.any() == scorers.of(method::kvpop_mlp));
}

TEST_CASE("compressions: three by name, the others literally") {
  CHECK(qwen3::entries_at(75, 1024) == 256);
  CHECK(qwen3::entries_at(88, 1024) == 128);
  CHECK(qwen3::entries_at(94, 1024) == 64);
  CHECK(qwen3::entries_at(50, 1023) == 512);  // 511.5
  CHECK(qwen3::entries_at(90, 1000) == 100);
  CHECK(qwen3::entries_at(0, 77) == 77);
  CHECK(qwen3::entries_at(99, 3) == 1);
}
