#include "qwen3/weights.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "files.hpp"         // temporary_directory, safetensors_bytes, message_of
#include "qwen3/config.hpp"  // load_config
#include "qwen3/error.hpp"   // load_error

namespace {

using namespace qwen3_test;
using qwen3::load_error;
using qwen3::weights;

const std::string checkpoints = KVPOP_TEST_DATA "/checkpoints/";

// A file with one-dimensional U8 tensors of one byte, whose names are given.
void write_shard(const std::string& path, const std::vector<std::string>& names) {
  std::string header = "{", data;
  for (const std::string& name : names) {
    const std::string at = std::to_string(data.size());
    header += (data.empty() ? "\"" : ",\"") + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + at + "," +
              std::to_string(data.size() + 1) + "]}";
    data += 'x';
  }
  write_file(path, safetensors_bytes(header + "}", data));
}

// What opening the directory with this index says, without the index's path in front.
std::string index_refusal(const temporary_directory& directory, const std::string& index) {
  const std::string path = directory / "model.safetensors.index.json";
  write_file(path, index);
  const std::string message = message_of<load_error>([&] { weights::open(directory.path()); });
  return message.starts_with(path + ": ") ? message.substr(path.size() + 2) : message;
}

}  // namespace

TEST_CASE("weights of each dtype are found with their shape, in place") {
  const auto f32 = weights::open(checkpoints + "llama_gqa_f32");
  const auto q = f32.matrix("model.layers.1.self_attn.q_proj.weight", 72, 72);
  CHECK(q.type == qwen3::weight_type::f32);
  CHECK(q.data == f32.tensors().at("model.layers.1.self_attn.q_proj.weight").data);
  const auto bf16 = weights::open(checkpoints + "qwen2_gqa_bf16");
  CHECK(bf16.matrix("lm_head.weight", 130, 64).type == qwen3::weight_type::bf16);
  CHECK(bf16.vector("model.layers.0.self_attn.q_proj.bias", 64).size() == 64);
  const auto f16 = weights::open(checkpoints + "qwen3_gqa_f16");
  CHECK(f16.matrix("model.embed_tokens.weight", 97, 40).type == qwen3::weight_type::f16);
}

TEST_CASE("vectors are converted to f32") {
  const temporary_directory directory;
  const std::uint16_t bits[] = {0x3f80, 0xc000, 0x3c00, 0xc000};  // 1, -2 in bf16; 1, -2 in f16
  write_file(directory / "model.safetensors",
             safetensors_bytes(R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},)"
                               R"("h":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}})",
                               std::string_view(reinterpret_cast<const char*>(bits), sizeof bits)));
  const auto opened = weights::open(directory.path());
  CHECK(opened.vector("b", 2) == std::vector<float>{1, -2});
  CHECK(opened.vector("h", 2) == std::vector<float>{1, -2});
}

TEST_CASE("a sharded checkpoint is one set of weights") {
  const auto opened = weights::open(checkpoints + "qwen3_mqa_bf16_sharded");
  CHECK(opened.tensors().size() == 36);
  CHECK(opened.contains("lm_head.weight"));
  CHECK(opened.matrix("model.layers.2.self_attn.k_proj.weight", 64, 48).type == qwen3::weight_type::bf16);
}

TEST_CASE("tensors that are missing, of another shape or another dtype are named with what was expected") {
  const std::string directory = checkpoints + "qwen3_mqa_bf16_sharded";
  const auto opened = weights::open(directory);
  const std::string name = "model.layers.2.self_attn.q_proj.weight";
  CHECK(message_of<load_error>([&] { opened.matrix(name, 48, 256); }) ==
        directory + ": " + name + " has shape [256, 48]; expected [48, 256]");
  CHECK(message_of<load_error>([&] { opened.vector(name, 48); }) ==
        directory + ": " + name + " has shape [256, 48]; expected [48]");
  CHECK(message_of<load_error>([&] { opened.vector("model.norm.bias", 48); }) ==
        directory + ": model.norm.bias is missing; expected with shape [48]");
  const temporary_directory other;
  write_shard(other / "model.safetensors", {"t"});
  const auto bytes = weights::open(other.path());
  CHECK(message_of<load_error>([&] { bytes.vector("t", 1); }) ==
        other.path() + ": t has dtype \"U8\"; expected F32, BF16 or F16");
}

TEST_CASE("weights that their file does not align are aligned copies") {
  const temporary_directory directory;
  const float number = 0.15625F;
  const std::string header = R"({"t":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}})";
  for (std::size_t pad = 0; pad < 4; ++pad) {
    write_file(directory / "model.safetensors",
               safetensors_bytes(header + std::string(pad, ' '),
                                 std::string_view(reinterpret_cast<const char*>(&number), sizeof number)));
    auto opened = weights::open(directory.path());
    const auto moved = std::move(opened);  // and stay where they are
    const auto matrix = moved.matrix("t", 1, 1);
    CHECK(reinterpret_cast<std::uintptr_t>(matrix.data) % alignof(float) == 0);
    CHECK(*static_cast<const float*>(matrix.data) == number);
  }
}

TEST_CASE("directories that hold no weights") {
  const temporary_directory directory;
  CHECK(message_of<load_error>([&] { weights::open(directory / "missing"); }) ==
        directory / "missing" + ": cannot open: No such file or directory");
  CHECK(message_of<load_error>([&] { weights::open(directory.path()); }) ==
        directory.path() + ": holds neither model.safetensors nor model.safetensors.index.json");
  write_file(directory / "file", "");
  CHECK(message_of<load_error>([&] { weights::open(directory / "file"); }) ==
        directory / "file" + ": is not a directory; a Hugging Face directory is needed");
  std::filesystem::create_directory(directory / "model.safetensors");
  CHECK(message_of<load_error>([&] { weights::open(directory.path()); }) ==
        directory / "model.safetensors" + ": is a directory; a file is needed");
}

TEST_CASE("an index that is not one") {
  const temporary_directory directory;
  CHECK(index_refusal(directory, "") == "is empty; a JSON object is needed");
  CHECK(index_refusal(directory, "[]") == "is not a JSON object but array");
  CHECK(index_refusal(directory, "{}") == "weight_map is missing");
  CHECK(index_refusal(directory, R"({"weight_map":[]})") == "weight_map is not an object but array");
  CHECK(index_refusal(directory, R"({"weight_map":{"t":3}})") ==
        "the shard of tensor \"t\" is not a string but number");
  CHECK(index_refusal(directory, R"({"weight_map":{"t":"a","t":"b"}})") == "names \"t\" twice in one object");
  CHECK(index_refusal(directory, R"({"weight_map":)").starts_with("is not valid JSON: parse error at line 1, column"));
  std::string deep = R"({"weight_map":)";
  deep.append(1'000'000, '[');
  CHECK(index_refusal(directory, deep) == "is nested deeper than 64 levels");
}

TEST_CASE("an index that leads out of the directory") {
  const temporary_directory outside;
  write_shard(outside / "s.safetensors", {"t"});
  const temporary_directory directory;
  const auto named = [&](const std::string& shard) {
    return index_refusal(directory, R"({"weight_map":{"t":")" + shard + R"("}})");
  };
  for (const std::string& shard : {std::string("../s.safetensors"), outside / "s.safetensors", std::string("."),
                                   std::string(".."), std::string(), std::string("sub/s.safetensors")}) {
    CHECK(named(shard) == "names the shard \"" + shard + "\", which is not a file name");
  }
  CHECK(named("a\\u0000b") == "names the shard \"a?b\", which is not a file name");
  CHECK(named("none.safetensors") == "names the shard \"none.safetensors\", which is missing");
  std::filesystem::create_symlink("nowhere", directory / "dangling");
  CHECK(named("dangling") == "names the shard \"dangling\", which is missing");
  std::filesystem::create_symlink(outside / "s.safetensors", directory / "link");
  CHECK(named("link") == "the shard \"link\" is a link that leads out of the directory, to " +
                             std::filesystem::canonical(outside.path()).string());
  write_shard(directory / "s.safetensors", {"t"});
  std::filesystem::create_symlink("s.safetensors", directory / "inside");
  CHECK(named("inside") == "(nothing was thrown)");
  CHECK(named("s.safetensors") == "(nothing was thrown)");
}

TEST_CASE("a snapshot of the hub's cache, where every shard is a link to its blobs") {
  const temporary_directory cache;
  const std::string snapshot = cache / "models--x/snapshots/0123";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directory(cache / "models--x/blobs");
  write_shard(cache / "models--x/blobs/abc", {"t"});
  std::filesystem::create_symlink("../../blobs/abc", snapshot + "/s.safetensors");
  write_file(snapshot + "/model.safetensors.index.json", R"({"weight_map":{"t":"s.safetensors"}})");
  CHECK(weights::open(snapshot).contains("t"));
}

TEST_CASE("shards and index that do not agree") {
  const temporary_directory directory;
  write_shard(directory / "a", {"t", "both"});
  write_shard(directory / "b", {"u", "both", "unlisted"});
  CHECK(index_refusal(directory, R"({"weight_map":{"t":"a","u":"a"}})") ==
        "lists tensor \"u\" in \"a\", which does not hold it");
  CHECK(index_refusal(directory, R"({"weight_map":{"t":"a","u":"b"}})") ==
        "tensor \"both\" is in two shards, \"a\" and \"b\"");
  write_shard(directory / "b", {"u", "unlisted"});
  CHECK(index_refusal(directory, R"({"weight_map":{"t":"a","u":"b"}})") == "(nothing was thrown)");
  CHECK_FALSE(weights::open(directory.path()).contains("unlisted"));
  write_file(directory / "b", "short");
  CHECK(index_refusal(directory, R"({"weight_map":{"t":"a","u":"b"}})") ==
        directory / "b" + ": is 5 bytes long; a safetensors file begins with 8 bytes, the length of its header");
}

TEST_CASE("one whole file is taken before an index") {
  const temporary_directory directory;
  write_shard(directory / "model.safetensors", {"t"});
  CHECK(index_refusal(directory, "nonsense") == "(nothing was thrown)");
}
