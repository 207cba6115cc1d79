#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "error.hpp"  // load_error

namespace qwen3 {

namespace {

struct descriptor {
  int value;
  ~descriptor() {
    if (value >= 0) ::close(value);
  }
};

[[noreturn]] void fail(const std::string& path, const char* action) {
  throw load_error(path + ": " + action + ": " + std::strerror(errno));
}

}  // namespace

mapped_file mapped_file::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) throw load_error(in_quotes(path) + ": the name holds a NUL byte");
  // O_NONBLOCK: a named pipe that nobody writes to would otherwise wait for ever before it could be refused.
  const descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) fail(path, "cannot open");
  struct stat status {};
  if (::fstat(file.value, &status) != 0) fail(path, "cannot inspect");
  if (S_ISDIR(status.st_mode)) throw load_error(path + ": is a directory; a file is needed");
  if (!S_ISREG(status.st_mode)) throw load_error(path + ": is not a regular file");

  mapped_file result;
  result.path_ = path;
  if (status.st_size == 0) return result;  // mmap refuses a length of 0
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (data == MAP_FAILED) fail(path, "cannot map");
  result.data_ = static_cast<const std::byte*>(data);
  result.size_ = size;
  return result;
}

mapped_file::mapped_file(mapped_file&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace qwen3
