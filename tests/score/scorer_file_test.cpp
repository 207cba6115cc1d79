#include "kvpop/score/scorer_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "support/generators.hpp"
#include "support/scorer_bytes.hpp"

namespace {

using kvpop::error;
using kvpop::load_scorer;
using kvpop::scorer_file;
using kvpop_test::bytes;
using kvpop_test::generator;
using kvpop_test::temporary_file;
using kvpop_test::written_scorer;

scorer_file load(const bytes& content) { return load_scorer(content.data(), content.size(), "f"); }

/// Whether the bytes load; an error of the library is the only other outcome.
bool loads(const bytes& content) {
  try {
    static_cast<void>(load(content));
    return true;
  } catch (const error& e) {
    REQUIRE(std::string(e.what()).starts_with("kvpop: f: "));
    return false;
  }
}

const std::string notebook = std::string(KVPOP_MODELS) + "/notebook/scorers/";

TEST_CASE("the notebook's scorers load") {
  const scorer_file mlp = load_scorer(notebook + "kvpop-mlp.safetensors");
  CHECK(mlp.description().kind == kvpop::scorer_kind::mlp);
  CHECK(mlp.description().hidden == 64);
  CHECK(mlp.memory_size() == 0);
  CHECK_NOTHROW(mlp.check_model(4, 2, 64, 64));
  const scorer_file mlstm = load_scorer(notebook + "kvpop.safetensors");
  CHECK(mlstm.description().dk == 16);
  CHECK(mlstm.description().dv == 16);
  CHECK(mlstm.description().window == 32);
  CHECK(mlstm.description().delay == 32);
  CHECK(mlstm.description().sinks == 4);
  CHECK(mlstm.description().trained_topk == 25);
  CHECK(mlstm.description().target == "max");
  CHECK(mlstm.memory_size() == 16 * 16 + 16 + 1);
  for (kvpop::index_t i = 0; i < 4; ++i) {
    const kvpop::scorer_layer layer = mlstm.layer(i);
    CHECK(layer.ref().delay() == 32);
    CHECK(layer.ref().log_gamma(0) < 0.0F);
  }
}

TEST_CASE("one line: a layer outlives its file, and moves") {
  auto scorer = load_scorer((notebook + "kvpop-mlp.safetensors").c_str()).layer(3);
  float x[128];
  generator random(350);
  for (float& value : x) {
    value = random.normal();
  }
  const float r = scorer.ref().score(1, 0, x, nullptr);
  CHECK(std::isfinite(r));
  const kvpop::scorer_layer moved = std::move(scorer);
  CHECK(moved.ref().score(1, 0, x, nullptr) == r);
}

TEST_CASE("every parameter arrives where it belongs") {
  written_scorer file = written_scorer::make("mlstm", 3, 2, 3, 4, 5, 6);
  const scorer_file loaded = load(file.write());
  const auto floats = [&](const std::string& name) {
    const std::string& data = file.tensors.at("layers.1." + name).data;
    return reinterpret_cast<const float*>(data.data());
  };
  kvpop::mlstm_parameters p;
  p.dk = 5;
  p.dv = 6;
  p.wk = floats("wk");
  p.wq = floats("wq");
  p.wv = floats("wv");
  p.wo = floats("wo");
  p.wf = floats("wf");
  p.wi = floats("wi");
  p.a = floats("a");
  p.wout = floats("wout");
  p.bf = floats("bf");
  p.bi = floats("bi");
  p.b = floats("b");
  const kvpop::mlstm_ref direct({2, 3, 4}, p, 8);
  const kvpop::scorer_layer layer = loaded.layer(1);
  generator random(351);
  float one[36];
  float two[36];
  layer.ref().reset(one);
  direct.reset(two);
  for (int t = 0; t < 5; ++t) {
    float x[7];
    for (float& value : x) {
      value = random.normal();
    }
    layer.ref().observe(1, t, x, one);
    direct.observe(1, t, x, two);
    CHECK(layer.ref().score(1, t, x, one) == direct.score(1, t, x, two));
  }
  CHECK(layer.ref().log_gamma(0) == kvpop::log_gamma_from(floats("g")[0]));
  CHECK(layer.ref().log_gamma(1) == kvpop::log_gamma_from(floats("g")[1]));
  CHECK(std::memcmp(one, two, sizeof(one)) == 0);
}

TEST_CASE("a scorer of another model is refused by name") {
  const scorer_file file = load(written_scorer::make("mlp", 2, 3, 5, 4, 7, 0).write());
  CHECK_NOTHROW(file.check_model(2, 3, 5, 4));
  CHECK_THROWS_WITH_AS(file.check_model(3, 3, 5, 4),
                       "kvpop: f: scorer of another model: layers is 2 in the file and 3 in the model", error);
  CHECK_THROWS_WITH_AS(file.check_model(2, 8, 5, 4),
                       "kvpop: f: scorer of another model: kv_heads is 3 in the file and 8 in the model", error);
  CHECK_THROWS_WITH_AS(file.check_model(2, 3, 64, 4),
                       "kvpop: f: scorer of another model: key_dim is 5 in the file and 64 in the model", error);
  CHECK_THROWS_WITH_AS(file.check_model(2, 3, 5, 64),
                       "kvpop: f: scorer of another model: value_dim is 4 in the file and 64 in the model", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(file.layer(2)), "kvpop: f: layer is 2; the file has 2 layers", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(file.layer(-1)), "kvpop: f: layer is -1; the file has 2 layers", error);
}

TEST_CASE("a parameter that is not finite is refused, wherever it is") {
  for (const std::uint32_t bits : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xffffffffU, 0x7f800001U}) {
    written_scorer file = written_scorer::make("mlp", 2, 1, 2, 2, 3, 0);
    std::memcpy(file.tensors.at("layers.1.w1").data.data() + 4 * 11, &bits, 4);
    CHECK_THROWS_WITH_AS(static_cast<void>(load(file.write())),
                         "kvpop: f: tensor 'layers.1.w1': element 11 is not finite", error);
  }
}

TEST_CASE("a file cut at any byte is an error, never a crash") {
  for (const std::string kind : {"mlp", "mlstm"}) {
    const bytes whole = written_scorer::make(kind, 1, 1, 2, 1, 2, 3).write();
    REQUIRE(loads(whole));
    for (std::size_t length = 0; length < whole.size(); ++length) {
      REQUIRE_FALSE(loads(bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))));
    }
  }
}

TEST_CASE("a header cut at any byte, with the length set to match, is an error") {
  const written_scorer file = written_scorer::make("mlstm", 1, 1, 2, 1, 2, 3);
  const std::string header = file.header();
  for (std::size_t length = 0; length < header.size(); ++length) {
    REQUIRE_FALSE(loads(kvpop_test::file_bytes(header.substr(0, length), file.data())));
  }
}

TEST_CASE("random damage never crashes") {
  generator random(352);
  const bytes whole = written_scorer::make("mlstm", 2, 1, 2, 1, 2, 3).write();
  const std::size_t header = whole.size() - written_scorer::make("mlstm", 2, 1, 2, 1, 2, 3).data().size();
  int loaded = 0;
  for (int draw = 0; draw < 10000; ++draw) {
    bytes damaged = whole;
    for (std::int64_t i = random.integer(1, 4); i > 0; --i) {
      const auto at = static_cast<std::size_t>(
          random.integer(0, static_cast<std::int64_t>(random.chance(0.8) ? header : damaged.size()) - 1));
      switch (at < damaged.size() ? random.integer(0, 3) : 4) {
        case 0:
          damaged[at] = static_cast<std::byte>(random.bits() & 0xffU);
          break;
        case 1:
          damaged[at] ^= std::byte{1} << random.integer(0, 7);
          break;
        case 2:
          damaged.erase(damaged.begin() + static_cast<std::ptrdiff_t>(at));
          break;
        case 3: {
          const auto from = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(damaged.size()) - 1));
          const auto count = static_cast<std::size_t>(random.integer(1, 40));
          const bytes piece(damaged.begin() + static_cast<std::ptrdiff_t>(from),
                            damaged.begin() + static_cast<std::ptrdiff_t>(std::min(from + count, damaged.size())));
          damaged.insert(damaged.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
          break;
        }
        default:
          break;
      }
    }
    loaded += loads(damaged) ? 1 : 0;
  }
  CHECK(loaded < 5000);  // damage in the data may leave finite numbers, damage in the header is found
}

TEST_CASE("a header whose JSON keeps its form but lies in one number") {
  generator random(353);
  const written_scorer file = written_scorer::make("mlp", 1, 2, 2, 1, 2, 0);
  const std::string header = file.header();
  for (int draw = 0; draw < kvpop_test::draws(2000); ++draw) {
    std::string lie = header;
    std::size_t at = header.find("\"layers.0.b1\"");
    do {
      at = static_cast<std::size_t>(random.integer(static_cast<std::int64_t>(header.find("\"layers.0.b1\"")),
                                                   static_cast<std::int64_t>(header.size()) - 1));
    } while (header[at] < '0' || header[at] > '9' || header[at - 1] == 'F' || header[at - 1] == '3' ||
             header[at - 1] == '.' || header[at - 1] == 'w' || header[at - 1] == 'b');
    lie.replace(at, 1, random.pick<const char*>({"-1", "1e9", "99999999999999999999", "9223372036854775807", "77"}));
    REQUIRE_FALSE(loads(kvpop_test::file_bytes(lie, file.data())));
  }
}

TEST_CASE("files on disk") {
  const temporary_file good(written_scorer::make("mlp", 1, 1, 1, 1, 1, 0).write());
  CHECK(load_scorer(good.path()).description().layers == 1);
  CHECK_THROWS_WITH_AS(static_cast<void>(load_scorer("/nonexistent")), "kvpop: /nonexistent: No such file or directory",
                       error);
  CHECK_THROWS_WITH_AS(static_cast<void>(load_scorer("/tmp")), "kvpop: /tmp: Is a directory", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(load_scorer(std::string(KVPOP_MODELS) + "/notebook/config.json")),
                       doctest::Contains("config.json: the header's length is "), error);
}

}  // namespace
