#include "qwen3/gnuplot.hpp"

#include <doctest/doctest.h>

#include <string>

#include "files.hpp"        // temporary_directory, read_file, write_file, entries_of
#include "qwen3/error.hpp"  // load_error

namespace {

using namespace qwen3_test;

const std::string terminal = "set terminal svg size 200,100\n";

}  // namespace

TEST_CASE("a script's drawing replaces the file whole, however long the script is") {
  const temporary_directory directory;
  const std::string path = directory / "d.svg";
  write_file(path, "old");
  std::string script = terminal + "$data << EOD\n";
  for (int i = 0; i < 40'000; ++i)
    script += std::to_string(i) + " " + std::to_string(i % 7) + "\n";  // over a pipe's 64 KiB
  qwen3::draw_svg(script + "EOD\nplot $data using 1:2 with lines\n", path);
  const std::string drawing = read_file(path);
  CHECK(drawing.find("<svg") != std::string::npos);
  CHECK(drawing.rfind("</svg>") != std::string::npos);
  CHECK(entries_of(directory.path()) == 1);
}

TEST_CASE("a script that fails or draws nothing is an error, and the file stays as it was") {
  const temporary_directory directory;
  const std::string path = directory / "d.svg";
  write_file(path, "old");
  CHECK_THROWS_WITH_AS(qwen3::draw_svg("this is no command\n", path), "plot: gnuplot failed with status 1",
                       qwen3::load_error);
  CHECK_THROWS_WITH_AS(qwen3::draw_svg("", path), "plot: gnuplot's drawing is not whole: 0 bytes", qwen3::load_error);
  CHECK(read_file(path) == "old");
  CHECK(entries_of(directory.path()) == 1);
  CHECK_THROWS_AS(qwen3::draw_svg(terminal + "plot x\n", directory / "nowhere/d.svg"), qwen3::load_error);
}
