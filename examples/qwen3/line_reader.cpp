#include "line_reader.hpp"

#include <algorithm>

namespace qwen3 {

bool line_reader::next() {
  if (rest_.empty()) return false;
  const std::size_t end = std::min(rest_.find('\n'), rest_.size());
  line_ = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  ++number_;
  return true;
}

}  // namespace qwen3
