#include "qwen3/line_reader.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "files.hpp"  // temporary_directory, write_file

namespace {

using namespace qwen3_test;

std::vector<std::string> lines_of(const std::string& bytes) {
  const temporary_directory directory;
  write_file(directory / "f", bytes);
  std::vector<std::string> lines;
  for (qwen3::line_reader file(directory / "f"); file.next();) {
    lines.emplace_back(file.line());
    CHECK(file.number() == lines.size());
    CHECK(file.place() == (directory / "f") + ":" + std::to_string(lines.size()));
  }
  return lines;
}

}  // namespace

TEST_CASE("lines with and without a line feed at the end, empty ones among them") {
  using lines = std::vector<std::string>;
  CHECK(lines_of("").empty());
  CHECK(lines_of("\n") == lines{""});
  CHECK(lines_of("a") == lines{"a"});
  CHECK(lines_of("a\n") == lines{"a"});
  CHECK(lines_of("a\n\nb\r\n") == lines{"a", "", "b\r"});
  CHECK(lines_of(std::string("\0\n\0", 3)) == lines{std::string(1, '\0'), std::string(1, '\0')});
}

TEST_CASE("a blank line has nothing but spaces, tabs and carriage returns") {
  const temporary_directory directory;
  write_file(directory / "f", " \t\r\n x \n\n");
  qwen3::line_reader file(directory / "f");
  REQUIRE(file.next());
  CHECK(file.blank());
  REQUIRE(file.next());
  CHECK_FALSE(file.blank());
  REQUIRE(file.next());
  CHECK(file.blank());
  CHECK_FALSE(file.next());
}
