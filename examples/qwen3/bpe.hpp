#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "json_place.hpp"  // json_place
#include "vocabulary.hpp"  // vocabulary

namespace qwen3 {

/// A token of a word: bytes [begin, end) of the word.
struct word_token {
  std::int32_t id;
  std::uint32_t begin;
  std::uint32_t end;
};

/// What happens to two neighbours that may merge: the lower rank comes first.
struct merge_result {
  std::uint32_t rank;
  std::int32_t id;
};

/// (left id, right id) -> merge_result. Open addressing; about 32 bytes a merge.
class merge_table {
 public:
  merge_table() = default;
  explicit merge_table(std::size_t merges);

  /// A pair that is there already is overwritten.
  void insert(std::int32_t left, std::int32_t right, merge_result result);
  std::optional<merge_result> find(std::int32_t left, std::int32_t right) const;

 private:
  struct slot {
    std::uint64_t pair;
    merge_result result;
  };
  std::size_t place(std::uint64_t pair) const;

  std::vector<slot> slots_;  // a power of two
  unsigned shift_ = 63;
};

/// Working memory of one thread that encodes, with a cache of bounded size: words come again and again.
class bpe_scratch {
 private:
  friend class byte_pair_encoder;
  struct symbol {
    std::int32_t id;  // -1: merged into its left neighbour
    std::int32_t previous, next;
    std::uint32_t begin, end;
  };
  struct candidate {
    std::uint32_t rank, position;
    std::int32_t id;
    bool operator>(const candidate& other) const {
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  struct text_hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  struct cached {
    std::size_t begin, count;
  };

  std::vector<symbol> symbols_;
  std::vector<candidate> queue_;  // a heap, lowest rank first
  std::vector<word_token> result_;
  std::unordered_map<std::string, cached, text_hash, std::equal_to<>> cache_;
  std::vector<word_token> cached_tokens_;
};

/// Byte-level BPE. Immutable.
class byte_pair_encoder {
 public:
  byte_pair_encoder() = default;

  /// Reads `model` of a tokenizer file, whose vocabulary is `words`. Throws load_error.
  byte_pair_encoder(const json_place& model, const vocabulary& words);

  /// The tokens of `word`, of at most 2^31 - 1 bytes, valid until the next call with this scratch. `words` as given to
  /// the constructor. Bytes that the vocabulary lacks are left out. O(n log n).
  std::span<const word_token> encode(std::string_view word, const vocabulary& words, bpe_scratch& scratch) const;

  /// How many bytes of `word` the vocabulary lacks.
  std::size_t missing_bytes(std::string_view word) const;

 private:
  void read_merges(const json_place& merges, const vocabulary& words);
  void merge(std::string_view word, bpe_scratch& scratch) const;
  void propose(std::int32_t left, bpe_scratch& scratch) const;

  std::array<std::int32_t, 256> byte_ids_{};  // -1: no such token
  bool all_bytes_ = false;
  bool ignore_merges_ = false;  // a word that is a token is that token, whatever the merges say
  merge_table merges_;
};

}  // namespace qwen3
