#include "qwen3/output_file.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "files.hpp"        // temporary_directory, read_file, write_file, entries_of
#include "qwen3/error.hpp"  // load_error

namespace {

using namespace qwen3_test;

}  // namespace

TEST_CASE("a file is there whole after commit, and not at all without") {
  const temporary_directory directory;
  const std::string target = directory / "f";
  write_file(target, "old");
  {
    qwen3::output_file file(target);
    file.write("new");
    CHECK(read_file(target) == "old");
  }
  CHECK(read_file(target) == "old");
  CHECK(entries_of(directory.path()) == 1);
  {
    qwen3::output_file file(target);
    file.write("ne");
    file.write("w");
    file.commit();
  }
  CHECK(read_file(target) == "new");
  CHECK(entries_of(directory.path()) == 1);
}

TEST_CASE("a link to the target stays a link, and its permissions stay") {
  const temporary_directory directory;
  write_file(directory / "real", "old");
  REQUIRE(::chmod((directory / "real").c_str(), 0640) == 0);
  std::filesystem::create_symlink("real", directory / "link");
  qwen3::output_file file(directory / "link");
  file.write("new");
  file.commit();
  CHECK(std::filesystem::is_symlink(directory / "link"));
  CHECK(read_file(directory / "real") == "new");
  struct stat status {};
  REQUIRE(::stat((directory / "real").c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
}

TEST_CASE("a device or pipe is written directly") {
  const temporary_directory directory;
  const std::string pipe = directory / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  REQUIRE(reader >= 0);
  qwen3::output_file file(pipe);
  file.write("through the pipe");
  file.commit();
  char text[32] = {};
  CHECK(::read(reader, text, sizeof text) == 16);
  CHECK(std::string(text) == "through the pipe");
  ::close(reader);
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("check_writable says what an output_file would, and leaves everything as it was") {
  const temporary_directory directory;
  CHECK_NOTHROW(qwen3::check_writable(""));
  CHECK_NOTHROW(qwen3::check_writable(directory / "new"));
  CHECK(entries_of(directory.path()) == 0);
  write_file(directory / "old", "kept");
  CHECK_NOTHROW(qwen3::check_writable(directory / "old"));
  CHECK(read_file(directory / "old") == "kept");
  CHECK_NOTHROW(qwen3::check_writable("/dev/null"));
  const std::string pipe = directory / "pipe";  // nobody reads it: opening it would wait for ever
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_NOTHROW(qwen3::check_writable(pipe));
  const std::string nowhere = directory / "nowhere/f";
  CHECK_THROWS_WITH_AS(qwen3::check_writable(nowhere), (nowhere + ": cannot write: No such file or directory").c_str(),
                       qwen3::load_error);
  CHECK_THROWS_WITH_AS(qwen3::check_writable(directory.path()),
                       (directory.path() + ": cannot write: is a directory").c_str(), qwen3::load_error);
}
