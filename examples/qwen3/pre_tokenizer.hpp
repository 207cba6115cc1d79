#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json_place.hpp"  // json_place
#include "pattern.hpp"     // pattern, matcher

namespace qwen3 {

/// A part of a text that is encoded on its own.
struct text_piece {
  std::string_view text;
  std::size_t begin = 0;     // of `text` in the whole
  std::size_t inserted = 0;  // bytes at the front of `text` that the whole does not have: 0, or 1 for a space

  /// Where byte `index` of this piece is in the whole.
  std::size_t place(std::size_t index) const { return begin + (index > inserted ? index - inserted : 0); }
  text_piece part(std::size_t from, std::size_t to) const {
    return {text.substr(from, to - from), place(from), from < inserted ? inserted - from : 0};
  }
};

/// Splits a text into the words that BPE works on, as `pre_tokenizer` of a tokenizer file says.
class pre_tokenizer {
 public:
  /// The room that one thread needs; the pre_tokenizer must outlive it.
  class scratch {
   public:
    explicit scratch(const pre_tokenizer& source);

   private:
    friend class pre_tokenizer;
    std::vector<std::optional<matcher>> matchers_;  // one a step
  };

  pre_tokenizer() = default;

  /// Reads `pre_tokenizer` of a tokenizer file. Throws load_error naming what it does not know.
  explicit pre_tokenizer(const json_place& place);

  /// Calls `emit(text_piece)` for every word of `whole`, in order; the views are valid during the call.
  template <class Emit>
  void split(const text_piece& whole, scratch& room, Emit&& emit) const {
    run(0, whole, room, emit);
  }

 private:
  struct step {
    bool add_space = false;            // before a piece that does not begin with one
    std::unique_ptr<pattern> matches;  // what it isolates; none: nothing is split
  };

  void add(const json_place& place);
  void add_split(const json_place& place);
  void add_byte_level(const json_place& place);

  template <class Emit>
  void run(std::size_t index, const text_piece& piece, scratch& room, Emit& emit) const {
    if (index == steps_.size()) return emit(piece);
    const step& now = steps_[index];
    if (now.add_space && !piece.text.starts_with(' ')) {
      const std::string spaced = " " + std::string(piece.text);
      return isolate(index, {spaced, piece.begin, piece.inserted + 1}, room, emit);
    }
    isolate(index, piece, room, emit);
  }

  template <class Emit>
  void isolate(std::size_t index, const text_piece& piece, scratch& room, Emit& emit) const {
    auto& matches = room.matchers_[index];
    if (!matches) return run(index + 1, piece, room, emit);
    matches->split(piece.text,
                   [&](std::size_t from, std::size_t to) { run(index + 1, piece.part(from, to), room, emit); });
  }

  std::vector<step> steps_;
  bool bytes_ = false;  // a ByteLevel step has been read; it is the last
};

}  // namespace qwen3
