#include "qwen3/chart.hpp"

#include <doctest/doctest.h>

#include <string>

#include "files.hpp"          // temporary_directory, read_file
#include "qwen3/gnuplot.hpp"  // draw_svg

TEST_CASE("a chart is a script that gnuplot draws, titles as they are") {
  qwen3::chart chart("set xrange [0:3]\n");
  const std::string first = chart.data("1 2\n2 3\n"), second = chart.data("1 1\n");
  CHECK(first != second);
  chart.curve(first + " using 1:2 with lines title " + qwen3::chart_text("it's a_b"));
  chart.curve(second + " using 1:2 with points notitle");
  CHECK(chart.script().find("plot $data0 using 1:2 with lines title 'it''s a_b', $data1 using") != std::string::npos);
  const qwen3_test::temporary_directory directory;
  qwen3::draw_svg(chart.script(), directory / "c.svg");
  CHECK(qwen3_test::read_file(directory / "c.svg").find("it's a_b") != std::string::npos);
}

TEST_CASE("numbers keep what a float holds") {
  CHECK(qwen3::chart_number(0.1F) == "0.100000001");
  CHECK(qwen3::chart_number(75) == "75");
}
