#include "qwen3/train_checkpoint.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "files.hpp"        // temporary_directory, message_of
#include "qwen3/error.hpp"  // load_error

namespace {

using namespace qwen3_test;
using qwen3::train_state;

train_state state_of(std::uint64_t seed) {
  train_state s(
      qwen3::trainable_scorer({.layers = 2, .kv_heads = 1, .head_dim = 3, .dk = 2, .dv = 2, .window = 4}, seed));
  for (std::size_t i = 0; i < s.first.size(); ++i)
    s.first[i] = static_cast<float>(i), s.second[i] = static_cast<float>(i) / 7;
  s.scorer.scales()[1] = 2.5F;
  s.step = 12;
  return s;
}

bool equal(const train_state& a, const train_state& b) {
  return a.scorer.values() == b.scorer.values() && a.scorer.scales() == b.scorer.scales() && a.first == b.first &&
         a.second == b.second && a.step == b.step;
}

}  // namespace

TEST_CASE("what is saved comes back, bit for bit") {
  const temporary_directory directory;
  qwen3::save_checkpoint(directory / "c", state_of(1), "kind=x seed=1");
  train_state back = state_of(2);
  back.step = 0;
  qwen3::load_checkpoint(directory / "c", back, "kind=x seed=1");
  CHECK(equal(back, state_of(1)));
}

TEST_CASE("a checkpoint of another training, a cut one and a poisoned one are refused, and the state is untouched") {
  const temporary_directory directory;
  const std::string path = directory / "c";
  qwen3::save_checkpoint(path, state_of(1), "kind=x window=32 seed=1");
  train_state state = state_of(2);
  const auto refused = [&](const std::string& identity) {
    const std::string m = message_of<qwen3::load_error>([&] { qwen3::load_checkpoint(path, state, identity); });
    CHECK(equal(state, state_of(2)));
    return m;
  };
  CHECK(refused("kind=x window=16 seed=1") ==
        path + ": the checkpoint is of another training: \"window=32\" there, \"window=16\" now");
  const std::string bytes = read_file(path);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{40}, bytes.size() / 2, bytes.size() - 1}) {
    write_file(path, bytes.substr(0, size));
    CHECK(refused("kind=x window=32 seed=1").find(path) != std::string::npos);
  }
  train_state poisoned = state_of(1);
  poisoned.second[3] = std::numeric_limits<float>::quiet_NaN();
  qwen3::save_checkpoint(path, poisoned, "kind=x window=32 seed=1");
  CHECK(refused("kind=x window=32 seed=1") == path + ": second holds a number that is not finite");
  write_file(path, safetensors_bytes("{}", ""));
  CHECK(refused("i").find("not a checkpoint") != std::string::npos);
}
