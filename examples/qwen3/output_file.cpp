#include "output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "error.hpp"  // load_error

namespace qwen3 {

output_file::output_file(std::string path) : path_(std::move(path)), target_(path_) {
  if (path_.empty()) throw load_error("cannot write: the name of the output file is empty");
  struct stat status {};
  const bool exists = ::stat(path_.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) fail("cannot write");
  if (exists && S_ISDIR(status.st_mode)) throw load_error(path_ + ": cannot write: is a directory");
  if (exists && !S_ISREG(status.st_mode)) {  // a rename would replace the device itself
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail("cannot write");
    return;
  }
  if (exists) {  // a link stays a link
    char* resolved = ::realpath(path_.c_str(), nullptr);
    if (resolved == nullptr) fail("cannot write");
    target_ = resolved;
    std::free(resolved);
    if (::access(target_.c_str(), W_OK) != 0) fail("cannot write");  // a rename does not ask
  }
  open_beside(exists ? static_cast<unsigned>(status.st_mode) & 0777u : 0666u);
}

void output_file::open_beside(unsigned mode) {
  constexpr int attempts = 100;  // names left behind by processes that were killed
  for (int i = 0; i < attempts; ++i) {
    temporary_ = target_ + ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, static_cast<mode_t>(mode));
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) break;
  }
  temporary_.clear();
  fail("cannot write");
}

output_file::~output_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void output_file::write(const void* data, std::size_t bytes) {
  constexpr std::size_t most = std::size_t{1} << 30;  // the system takes less than 2 GiB at once
  const auto* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, std::min(bytes, most));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write");
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void output_file::commit() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot write");  // a full network disk may tell only here
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot put in place");
  temporary_.clear();
}

void check_writable(const std::string& path) {
  struct stat status {};
  const bool special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  if (!path.empty() && !special) const output_file trial(path);
}

void output_file::fail(const char* action) const {
  throw load_error(path_ + ": " + action + ": " + std::strerror(errno));
}

}  // namespace qwen3
