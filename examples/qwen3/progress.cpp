#include "progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace qwen3 {

progress_bar::progress_bar(std::string label, std::int64_t total)
    : label_(std::move(label)), total_(std::max<std::int64_t>(total, 1)), visible_(::isatty(STDERR_FILENO) == 1) {}

progress_bar::~progress_bar() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void progress_bar::advance(std::int64_t steps) {
  done_ += steps;
  const auto now = clock::now();
  if (!visible_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  draw();
}

void progress_bar::draw() const {
  constexpr int width = 40;
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * width);
  const double seconds = std::chrono::duration<double>(clock::now() - begin_).count();
  const double left = share > 0 ? seconds / share - seconds : 0;
  std::fprintf(stderr, "\r\033[K%s [%s%s] %3d %%, %.0f s left", label_.c_str(),
               std::string(static_cast<std::size_t>(filled), '#').c_str(),
               std::string(static_cast<std::size_t>(width - filled), '.').c_str(), static_cast<int>(share * 100), left);
}

}  // namespace qwen3
