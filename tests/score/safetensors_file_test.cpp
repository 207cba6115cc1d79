#include "kvpop/score/safetensors_file.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "support/scorer_bytes.hpp"

namespace {

using kvpop::error;
using kvpop::safetensors_file;
using kvpop_test::bytes;
using kvpop_test::file_bytes;
using kvpop_test::temporary_file;

safetensors_file copy(const bytes& content) { return safetensors_file::copy(content.data(), content.size(), "f"); }

const std::string one = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";

TEST_CASE("a file and its bytes are the same") {
  const bytes content = file_bytes(one, "abcd");
  const temporary_file on_disk(content);
  const safetensors_file a = copy(content);
  const safetensors_file b = safetensors_file::read(on_disk.path().c_str());
  CHECK(a.name() == "f");
  CHECK(b.name() == on_disk.path());
  CHECK(a.header().data_bytes == 4);
  CHECK(std::memcmp(a.data(), "abcd", 4) == 0);
  CHECK(std::memcmp(b.data(), "abcd", 4) == 0);
}

TEST_CASE("a file larger than one reading") {
  std::string data(5U << 20U, '\0');
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<char>(i * 31 + (i >> 11U));
  }
  const std::string header = "{\"a\":{\"dtype\":\"U8\",\"shape\":[5242880],\"data_offsets\":[0,5242880]}}";
  const temporary_file on_disk(file_bytes(header, data));
  const safetensors_file file = safetensors_file::read(on_disk.path().c_str());
  CHECK(std::memcmp(file.data(), data.data(), data.size()) == 0);
}

TEST_CASE("a length that the file does not have") {
  CHECK_THROWS_WITH_AS(static_cast<void>(copy({})),
                       "kvpop: f: the file has 0 bytes; a safetensors file begins with 8 of length", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(copy(bytes(7))),
                       "kvpop: f: the file has 7 bytes; a safetensors file begins with 8 of length", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(copy(bytes(8))),
                       "kvpop: f: the header's length is 0; it must be in 2 .. 100000000", error);
  bytes content = file_bytes(one, "abcd");
  content[7] = std::byte{0x80};
  CHECK_THROWS_WITH_AS(static_cast<void>(copy(content)),
                       "kvpop: f: the header's length is 9223372036854775862; it must be in 2 .. 100000000", error);
  content[7] = std::byte{0};
  content[3] = std::byte{5};  // 84 MB claimed and not there
  CHECK_THROWS_WITH_AS(static_cast<void>(copy(content)),
                       "kvpop: f: the header's length is 83886134; only 58 bytes follow", error);
}

TEST_CASE("data that is missing or too much") {
  CHECK_THROWS_WITH_AS(static_cast<void>(copy(file_bytes(one, "abc"))),
                       "kvpop: f: the tensors need 4 bytes; only 3 follow the header", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(copy(file_bytes(one, "abcde"))), "kvpop: f: bytes follow the last tensor",
                       error);
  // An exabyte that is claimed is never allocated.
  const std::string huge =
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1152921504606846976],\"data_offsets\":[0,1152921504606846976]}}";
  CHECK_THROWS_WITH_AS(static_cast<void>(copy(file_bytes(huge, "abc"))),
                       "kvpop: f: the tensors need 1152921504606846976 bytes; only 3 follow the header", error);
}

TEST_CASE("paths that are no files") {
  CHECK_THROWS_WITH_AS(static_cast<void>(safetensors_file::read("/nonexistent/f")),
                       "kvpop: /nonexistent/f: No such file or directory", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(safetensors_file::read("/tmp")), "kvpop: /tmp: Is a directory", error);
  CHECK_THROWS_WITH_AS(static_cast<void>(safetensors_file::read("/dev/zero")),
                       "kvpop: /dev/zero: the header's length is 0; it must be in 2 .. 100000000", error);
}

}  // namespace
