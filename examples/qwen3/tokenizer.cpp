#include "tokenizer.hpp"

#include <limits>

#include "error.hpp"  // input_error
#include "nfc.hpp"    // nfc_changes
#include "utf8.hpp"   // find_invalid_utf8, take_whole_utf8

namespace qwen3 {

// One text on its way to ids.
class tokenizer::encoder {
 public:
  explicit encoder(const tokenizer& source) : source_(source), split_room_(source.pre_tokenizer_) {}

  encoding run(std::string_view text) {
    for (const std::int32_t id : source_.prefix_) add(id, 0, 0);
    source_.raw_added_.split(
        text, [&](std::size_t begin, std::size_t end) { add_text(text.substr(begin, end - begin), begin); },
        [&](std::size_t begin, std::size_t end, std::int32_t id) { add(id, begin, end); });
    for (const std::int32_t id : source_.suffix_) add(id, text.size(), text.size());
    if (result_.normalized) result_.bytes.clear();
    return std::move(result_);
  }

 private:
  void add(std::int32_t id, std::size_t begin, std::size_t end) {
    result_.ids.push_back(id);
    result_.bytes.push_back({begin, end});
  }

  void add_text(std::string_view text, std::size_t offset) {
    std::string changed;
    if (source_.nfc_ && nfc_changes(text, changed)) {
      result_.normalized = true;  // the ranges are thrown away at the end
      text = changed;
    }
    source_.normalized_added_.split(
        text,
        [&](std::size_t begin, std::size_t end) {
          const text_piece whole{text.substr(begin, end - begin), offset + begin, 0};
          source_.pre_tokenizer_.split(whole, split_room_, [this](const text_piece& word) { add_word(word); });
        },
        [&](std::size_t begin, std::size_t end, std::int32_t id) { add(id, offset + begin, offset + end); });
  }

  void add_word(const text_piece& word) {
    for (const word_token& token : source_.pairs_.encode(word.text, source_.words_, pair_room_))
      add(token.id, word.place(token.begin), word.place(token.end));
    result_.dropped += source_.pairs_.missing_bytes(word.text);
  }

  const tokenizer& source_;
  pre_tokenizer::scratch split_room_;
  bpe_scratch pair_room_;
  encoding result_;
};

encoding tokenizer::encode(std::string_view text) const {
  constexpr std::size_t most = std::numeric_limits<std::int32_t>::max();
  if (text.size() > most)
    throw input_error("the text has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(most) +
                      " are encoded at once");
  if (const std::size_t invalid = find_invalid_utf8(text); invalid != std::string_view::npos)
    throw input_error("the text is not UTF-8: byte " + std::to_string(invalid) + " is " +
                      std::to_string(static_cast<unsigned char>(text[invalid])) + " and begins no character");
  return encoder(*this).run(text);
}

std::string_view tokenizer::bytes_of(std::int32_t id) const {
  if (!words_.contains(id))
    throw input_error("no token has id " + std::to_string(id) + "; the vocabulary has ids from 0 to " +
                      std::to_string(size() - 1));
  return words_.bytes(id);
}

std::string tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string result;
  for (const std::int32_t id : ids) result += bytes_of(id);
  return result;
}

std::optional<std::int32_t> tokenizer::find(std::string_view bytes) const {
  const auto added = words_.find_added(bytes);
  return added ? added : words_.find_word(bytes);
}

bool tokenizer::is_special(std::int32_t id) const { return words_.contains(id) && words_.special(id); }

std::string tokenizer::chat_prompt(std::string_view user, std::string_view system) const {
  if (!chat_) throw load_error(no_chat_);
  return chat_->prompt(user, system);
}

std::string text_stream::push(std::int32_t id) {
  held_ += source_->bytes_of(id);
  return take_whole_utf8(held_, false);
}

std::string text_stream::finish() { return take_whole_utf8(held_, true); }

}  // namespace qwen3
