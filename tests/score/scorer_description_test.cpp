#include "kvpop/score/scorer_description.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/scorer_bytes.hpp"

namespace {

using kvpop::error;
using kvpop::scorer_description;
using kvpop_test::written_scorer;

scorer_description describe(const written_scorer& file) {
  const kvpop_test::bytes content = file.write();
  return kvpop::describe_scorer(kvpop::safetensors_file::copy(content.data(), content.size(), "f"));
}

written_scorer mlp() { return written_scorer::make("mlp", 2, 3, 5, 4, 7, 0); }
written_scorer mlstm() { return written_scorer::make("mlstm", 12, 2, 3, 3, 4, 5); }

/// Describes `file` after `change`.
template <class Change>
scorer_description changed(written_scorer file, Change change) {
  change(file);
  return describe(file);
}

#define CHECK_FAILS(file, change, message) \
  CHECK_THROWS_WITH_AS(static_cast<void>(changed(file, [](written_scorer& f) { change; })), "kvpop: f: " message, error)

TEST_CASE("an MLP file and an mLSTM file") {
  const scorer_description a = describe(mlp());
  CHECK(a.kind == kvpop::scorer_kind::mlp);
  CHECK(a.layers == 2);
  CHECK(a.input.kv_heads == 3);
  CHECK(a.input.key_dim == 5);
  CHECK(a.input.value_dim == 4);
  CHECK(a.hidden == 7);
  CHECK(a.window == 8);
  CHECK(a.delay == 0);
  CHECK(a.sinks == 4);
  CHECK(a.target == "rms");
  CHECK(a.trained_topk == 28);
  CHECK(a.has_decay);
  CHECK(a.memory_size() == 0);
  CHECK(a.parameters() == 2 * 3 * (7 * 9 + 7 + 7 + 1 + 1));
  const scorer_description b = describe(mlstm());
  CHECK(b.kind == kvpop::scorer_kind::mlstm);
  CHECK(b.layers == 12);
  CHECK(b.dk == 4);
  CHECK(b.dv == 5);
  CHECK(b.delay == 8);
  CHECK(b.memory_size() == 4 * 5 + 4 + 1);
  CHECK(b.parameters() == 12 * 2 * (2 * 4 * 6 + 2 * 5 * 6 + 3 * 6 + 5 + 4));
}

TEST_CASE("without g there is no decay, with some of it missing there is an error") {
  CHECK_FALSE(changed(mlp(), [](written_scorer& f) {
                f.tensors.erase("layers.0.g");
                f.tensors.erase("layers.1.g");
              }).has_decay);
  CHECK_FAILS(mlp(), f.tensors.erase("layers.1.g"), "tensor 'layers.1.g' is missing");
  CHECK_FAILS(mlp(), f.tensors.erase("layers.0.g"), "tensor 'layers.1.g' is not part of a scorer of kind mlp");
}

TEST_CASE("what the file does not say about its training may be missing") {
  const scorer_description d = changed(mlp(), [](written_scorer& f) {
    f.metadata.erase("target");
    f.metadata.erase("trained_topk");
    f.metadata["author"] = "somebody";
  });
  CHECK(d.target.empty());
  CHECK(d.trained_topk == 0);
}

TEST_CASE("metadata that is missing or wrong") {
  for (const std::string key :
       {"format", "version", "kind", "layers", "kv_heads", "key_dim", "value_dim", "window", "delay", "sinks"}) {
    written_scorer file = mlp();
    file.metadata.erase(key);
    CHECK_THROWS_WITH_AS(static_cast<void>(describe(file)),
                         ("kvpop: f: metadata '" + key + "' is missing: not a scorer file").c_str(), error);
  }
  CHECK_FAILS(mlp(), f.metadata["format"] = "pt", "metadata 'format' is 'pt'; it must be 'kvpop.scorer'");
  CHECK_FAILS(mlp(), f.metadata["version"] = "2", "metadata 'version' is '2'; it must be '1'");
  CHECK_FAILS(mlp(), f.metadata["kind"] = "gru", "metadata 'kind' is 'gru'; it must be 'mlp' or 'mlstm'");
  CHECK_FAILS(mlp(), f.metadata["layers"] = "0", "metadata 'layers' is '0'; it must be an integer in 1 .. 4096");
  CHECK_FAILS(mlp(), f.metadata["layers"] = "-1", "metadata 'layers' is '-1'; it must be an integer in 1 .. 4096");
  CHECK_FAILS(mlp(), f.metadata["kv_heads"] = "65537",
              "metadata 'kv_heads' is '65537'; it must be an integer in 1 .. 65536");
  CHECK_FAILS(mlp(), f.metadata["key_dim"] = "64.0",
              "metadata 'key_dim' is '64.0'; it must be an integer in 1 .. 8192");
  CHECK_FAILS(mlp(), f.metadata["value_dim"] = "99999999999999999999",
              "metadata 'value_dim' is '99999999999999999999'; it must be an integer in 1 .. 8192");
  CHECK_FAILS(mlp(), f.metadata["window"] = "0", "metadata 'window' is '0'; it must be an integer in 1 .. 2147483647");
  CHECK_FAILS(mlp(), f.metadata["window"] = "", "metadata 'window' is ''; it must be an integer in 1 .. 2147483647");
  CHECK_FAILS(mlstm(), f.metadata["delay"] = "9", "metadata 'delay' is '9'; it must be an integer in 0 .. 8");
  CHECK_FAILS(mlp(), f.metadata["sinks"] = "four",
              "metadata 'sinks' is 'four'; it must be an integer in 0 .. 2147483647");
  CHECK_FAILS(mlp(), f.metadata["trained_topk"] = "x",
              "metadata 'trained_topk' is 'x'; it must be an integer in 0 .. 2147483647");
}

TEST_CASE("tensors that are missing, unknown or of another type or shape") {
  CHECK_FAILS(mlp(), f.tensors.erase("layers.0.w1"), "tensor 'layers.0.w1' is missing");
  CHECK_FAILS(mlp(), f.tensors.erase("layers.1.b2"), "tensor 'layers.1.b2' is missing");
  CHECK_FAILS(mlp(), f.metadata["layers"] = "3", "tensor 'layers.2.w1' is missing");
  CHECK_FAILS(mlp(), f.metadata["layers"] = "1", "tensor 'layers.1.b1' is not part of a scorer of kind mlp");
  CHECK_FAILS(mlp(), f.metadata["kind"] = "mlstm", "tensor 'layers.0.wk' is missing");
  CHECK_FAILS(mlp(), f.tensors["layers.0.w1"].dtype = "I32", "tensor 'layers.0.w1': dtype is 'I32'; it must be F32");
  CHECK_FAILS(mlp(), (f.tensors["layers.1.w1"].shape = {3, 9, 7}),
              "tensor 'layers.1.w1': shape is [3, 9, 7]; it must be [3, 7, 9]");
  CHECK_FAILS(mlp(), (f.tensors["layers.0.b2"].shape = {3, 1}),
              "tensor 'layers.0.b2': shape is [3, 1]; it must be [3]");
  CHECK_FAILS(mlp(), f.metadata["kv_heads"] = "4", "tensor 'layers.0.w1': shape is [3, 7, 9]; it must be [4, 7, 9]");
  CHECK_FAILS(mlp(), f.metadata["key_dim"] = "6", "tensor 'layers.0.w1': shape is [3, 7, 9]; it must be [3, 7, 10]");
  CHECK_FAILS(mlp(), (f.tensors["layers.0.w1"].shape = {189}),
              "tensor 'layers.0.w1': its second of three axes must be in 1 .. 4096");
  CHECK_FAILS(mlstm(), (f.tensors["layers.0.wk"].shape = {1, 48, 1}),
              "tensor 'layers.0.wk': shape is [1, 48, 1]; it must be [2, 48, 6]");
  CHECK_FAILS(mlstm(), (f.tensors["layers.0.wk"] = {"F32", {2, 1025, 0}, ""}),
              "tensor 'layers.0.wk': its second of three axes must be in 1 .. 1024");
}

TEST_CASE("names that look like a layer's but are not") {
  for (const std::string name : {"w1", "layers.0.w3", "layers.00.w1", "layers.2.w1", "layers.-1.w1", "layers..w1",
                                 "layers.0", "layers.0.w1.x", "layers.18446744073709551616.w1", "Layers.0.w1", ""}) {
    written_scorer file = mlp();
    file.tensors[name] = {"F32", {1}, "abcd"};
    CHECK_THROWS_WITH_AS(static_cast<void>(describe(file)),
                         ("kvpop: f: tensor '" + name + "' is not part of a scorer of kind mlp").c_str(), error);
  }
}

}  // namespace
