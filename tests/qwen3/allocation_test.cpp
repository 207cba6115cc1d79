#include <doctest/doctest.h>

#include <string>

#include "files.hpp"                 // temporary_directory, safetensors_bytes
#include "qwen3/config.hpp"          // load_config
#include "qwen3/error.hpp"           // load_error
#include "qwen3/safetensors.hpp"     // safetensors_file
#include "qwen3/weights.hpp"         // weights
#include "support/counting_new.hpp"  // this file's program counts every operator new

// Files that claim much and hold little: what is allocated follows what is there.

namespace {

using namespace qwen3_test;
using qwen3::load_error;

constexpr std::size_t a_page = 4096;  // more than any of these files needs at once

template <class Act>
std::size_t largest_allocation_of(Act&& act) {
  kvpop_test::largest_new = 0;
  act();
  return kvpop_test::largest_new;
}

void open_refused(const std::string& path) { CHECK_THROWS_AS(qwen3::safetensors_file::open(path), load_error); }

}  // namespace

TEST_CASE("sizes that a file claims and does not have are not allocated") {
  const temporary_directory directory;
  const std::string path = directory / "model.safetensors";
  const std::string claims[] = {
      R"({"t":{"dtype":"F32","shape":[1000000000,1000000],"data_offsets":[0,4000000000000000]}})",
      R"({"t":{"dtype":"F32","shape":[1000000000],"data_offsets":[0,4]}})",
      R"({"t":{"dtype":"Q4","shape":[9223372036854775807,9223372036854775807],"data_offsets":[0,5]}})",
  };
  for (const std::string& header : claims) {
    write_file(path, safetensors_bytes(header, "abcd"));
    CHECK(largest_allocation_of([&] { open_refused(path); }) < a_page);
  }
  std::string bytes = safetensors_bytes("{}", "");
  bytes[3] = 5;  // a header of 83,886,082 bytes
  write_file(path, bytes);
  CHECK(largest_allocation_of([&] { open_refused(path); }) < a_page);
}

TEST_CASE("asking for a shape that is not there allocates nothing of its size") {
  const temporary_directory directory;
  write_file(directory / "model.safetensors",
             safetensors_bytes(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"));
  const auto opened = qwen3::weights::open(directory.path());
  CHECK(largest_allocation_of([&] {
          CHECK_THROWS_AS(opened.vector("t", 1'000'000'000'000), load_error);
          CHECK_THROWS_AS(opened.vector("u", 1'000'000'000'000), load_error);
        }) < a_page);
}

TEST_CASE("large files are mapped and not read into memory") {
  const temporary_directory directory;
  const std::string path = directory / "model.safetensors";
  constexpr std::size_t elements = 1 << 20;
  std::string header = R"({"t":{"dtype":"F32","shape":[1024,1024],"data_offsets":[0,4194304]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  write_file(path, safetensors_bytes(header, std::string(elements * sizeof(float), 'x')));
  CHECK(largest_allocation_of([&] { qwen3::weights::open(directory.path()).matrix("t", 1024, 1024); }) < a_page);
}

TEST_CASE("a config that claims a huge model allocates nothing of its size") {
  const temporary_directory directory;
  write_file(directory / "config.json",
             R"({"model_type":"llama","hidden_size":262144,"intermediate_size":2097152,"num_hidden_layers":2048,)"
             R"("num_attention_heads":2048,"vocab_size":16777216,"max_position_embeddings":2147483648,)"
             R"("rms_norm_eps":1e-6})");
  CHECK(largest_allocation_of([&] { qwen3::load_config(directory.path()); }) < a_page);
}
