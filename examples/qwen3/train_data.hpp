#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "teacher.hpp"    // packed_row
#include "tokenizer.hpp"  // tokenizer

namespace qwen3 {

/// Text to train on, as tokens: a document a line of a .jsonl file ({"text": ...}, other members ignored), or a text file
/// each, or stdin for `-`.
class training_texts {
 public:
  /// Reads all of it. Documents shorter than `least` tokens teach nothing: lines of a .jsonl file that are so are left out
  /// and counted, a text file that is so is an error. Throws load_error or input_error naming file and line.
  static training_texts read(const std::vector<std::string>& paths, const tokenizer& words, std::int64_t least);

  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t left_out() const { return left_out_; }

  /// Rows of at most `length` tokens that hold every document once, in an order that seed and epoch decide. A document that
  /// is longer is cut; pieces shorter than `least` are dropped.
  std::vector<packed_row> rows(std::int64_t length, std::int64_t least, std::uint64_t seed, std::uint64_t epoch) const;

 private:
  void add(std::vector<std::int32_t> document);
  void add_lines(const std::string& path, const tokenizer& words, std::int64_t least);

  std::vector<std::vector<std::int32_t>> documents_;
  std::int64_t tokens_ = 0;
  std::int64_t left_out_ = 0;
};

/// The rows of a training, epoch after epoch: row i is the same whenever it is asked for.
class row_stream {
 public:
  /// Throws load_error when the texts make no row.
  row_stream(const training_texts& texts, std::int64_t length, std::int64_t least, std::uint64_t seed);

  /// Rows are asked for in ascending order.
  const packed_row& at(std::int64_t index);

 private:
  void next_epoch();

  const training_texts& texts_;
  std::int64_t length_, least_;
  std::uint64_t seed_;
  std::uint64_t epoch_ = 0;
  std::int64_t first_ = 0;  // index of rows_[0]
  std::vector<packed_row> rows_;
};

}  // namespace qwen3
