#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tokenizer.hpp"  // tokenizer, byte_range

namespace qwen3 {

/// Tokens [first, last) of a line: one answer. first >= 1, so that something stands before it.
struct token_range {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// One line of evaluation data.
struct eval_line {
  std::size_t number = 0;  // in the file, from 1
  std::vector<std::int32_t> tokens;
  std::vector<token_range> answers;

  /// Tokens before the first answer; half of the line where there is none. What SnapKV takes for its prompt.
  std::int64_t prompt() const;
};

/// How much of a file is read; 0: all.
struct eval_limits {
  std::size_t lines = 0;   // the first so many
  std::size_t tokens = 0;  // of a line; answers that are not wholly among them are left out
};

/// Reads a file of `{"text": ..., "answers": [[begin, end], ...]}` objects, one a line; other members are ignored.
///
/// begin and end are bytes of the text as it stands; a token belongs to an answer when its bytes overlap the range.
/// Throws load_error with the line's number and what is wrong with it.
std::vector<eval_line> read_eval_data(const std::string& path, const tokenizer& tokens, const eval_limits& limits = {});

}  // namespace qwen3
