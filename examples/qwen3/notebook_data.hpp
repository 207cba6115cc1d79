#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace qwen3 {

/// A line of data for the notebook task: jottings, and the byte ranges of the answers in them, space included.
struct notebook_document {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> answers;
};

/// How jottings are drawn. Shares are of lines; gaps and lengths count tokens of the notebook tokenizer, in which every word
/// and every line feed is one.
struct notebook_settings {
  std::int64_t tokens = 1024;
  double records = 0.22;         // lines that note a record
  double questions = 0.22;       // lines that ask, when there is something to ask
  double kept = 0.35;            // records that are confirmed
  std::int64_t least_gap = 256;  // a question's record was last mentioned so long ago
};

/// A stream of jottings with long-range recall:
///
///     note amber owl             a record: a name and its value
///     keep amber                 confirmed, at most three lines later: it may be asked for
///     drop amber                 or withdrawn: it never will be
///     ask amber owl              a question about a confirmed record, and its answer
///     the old mill sees a barn   filler
///
/// A name occurs in one record. The same text for the same seed and number.
notebook_document make_notebook(const notebook_settings& settings, std::uint64_t seed, std::uint64_t number);

/// One JSON object a line: {"text": ..., "answers": [[begin, end], ...]}.
std::string notebook_line(const notebook_document& document);

}  // namespace qwen3
