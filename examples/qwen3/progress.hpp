#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace qwen3 {

/// A progress bar on stderr: nothing is drawn when stderr is not a terminal. Redraws at most ten times a second.
class progress_bar {
 public:
  progress_bar(std::string label, std::int64_t total);
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  /// Wipes the bar.
  ~progress_bar();

  void advance(std::int64_t steps);

 private:
  using clock = std::chrono::steady_clock;
  void draw() const;

  std::string label_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool visible_;
  clock::time_point begin_ = clock::now();
  clock::time_point drawn_{};
};

}  // namespace qwen3
