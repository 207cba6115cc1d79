#include "gnuplot.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "error.hpp"        // load_error
#include "output_file.hpp"  // output_file

extern char** environ;

namespace qwen3 {

namespace {

// A file without a name, in memory: unlike a pipe it is never full, and nobody can hang up on it.
class memory_file {
 public:
  explicit memory_file(const char* name) : descriptor_(::memfd_create(name, MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail();
  }
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() { ::close(descriptor_); }

  int descriptor() const { return descriptor_; }

  // Writes the text, to be read from its beginning.
  void set(std::string_view text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::pwrite(descriptor_, text.data() + done, text.size() - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail();
      done += static_cast<std::size_t>(n);
    }
  }

  std::string text() const {
    std::string result;
    std::array<char, 1 << 16> block{};
    for (;;) {
      const ssize_t n = ::pread(descriptor_, block.data(), block.size(), static_cast<off_t>(result.size()));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail();
      if (n == 0) return result;
      result.append(block.data(), static_cast<std::size_t>(n));
    }
  }

 private:
  [[noreturn]] static void fail() { throw load_error(std::string("plot: ") + std::strerror(errno)); }

  int descriptor_;
};

// Starts gnuplot with its standard input and output on the two files, and its messages on our standard error.
pid_t start_gnuplot(const memory_file& script, const memory_file& drawing) {
  std::string program = "gnuplot";
  std::array<char*, 2> arguments = {program.data(), nullptr};
  posix_spawn_file_actions_t files{};
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, script.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, drawing.descriptor(), STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, "gnuplot", &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error == ENOENT) throw load_error("plot: gnuplot is not installed (Debian: apt-get install gnuplot-nox)");
  if (error != 0) throw load_error(std::string("plot: gnuplot could not be started: ") + std::strerror(error));
  return child;
}

// What gnuplot draws of a script.
std::string drawing_of(const std::string& script) {
  memory_file input("gnuplot script"), output("gnuplot drawing");
  input.set(script);
  const pid_t child = start_gnuplot(input, output);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw load_error(std::string("plot: ") + std::strerror(errno));
  }
  if (WIFSIGNALED(status)) throw load_error("plot: gnuplot was ended by signal " + std::to_string(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0)
    throw load_error("plot: gnuplot failed with status " + std::to_string(WEXITSTATUS(status)));
  std::string drawing = output.text();
  constexpr std::string_view end = "</svg>";
  if (const auto last = drawing.rfind(end); last == std::string::npos || last + end.size() + 8 < drawing.size())
    throw load_error("plot: gnuplot's drawing is not whole: " + std::to_string(drawing.size()) + " bytes");
  return drawing;
}

}  // namespace

void draw_svg(const std::string& script, const std::string& path) {
  const std::string drawing = drawing_of(script);
  output_file file(path);
  file.write(drawing);
  file.commit();
}

}  // namespace qwen3
