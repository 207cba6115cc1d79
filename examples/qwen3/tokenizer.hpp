#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "added_tokens.hpp"   // added_token_finder
#include "bpe.hpp"            // byte_pair_encoder
#include "chat.hpp"           // chat_format
#include "json_place.hpp"     // json_place
#include "pre_tokenizer.hpp"  // pre_tokenizer
#include "vocabulary.hpp"     // vocabulary

namespace qwen3 {

/// Bytes [begin, end) of a text.
struct byte_range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// What a text becomes.
struct encoding {
  std::vector<std::int32_t> ids;
  /// For each token the bytes of the input that it stands for, in order. They tile the input, except for bytes that no
  /// token stands for (`dropped`). Empty when `normalized`.
  std::vector<byte_range> bytes;
  /// NFC changed the text, so that tokens have no place in the input as it stands.
  bool normalized = false;
  /// Bytes left out because the vocabulary has no token for them; 0 when it has all 256 bytes.
  std::size_t dropped = 0;
};

/// A byte-level BPE tokenizer as Hugging Face's `tokenizer.json` describes it.
///
/// Does what the `tokenizers` library does with the same file: added tokens, NFC, split patterns, byte-level BPE, tokens
/// that a template puts around the text. Whatever part of the file it does not know is refused by name.
///
/// Immutable after `load`: any number of threads may use one object. Ids are int32.
class tokenizer {
 public:
  /// Reads `tokenizer.json` and, where they are, `tokenizer_config.json`, `generation_config.json` and
  /// `chat_template.jinja` of `directory`. Throws load_error.
  static tokenizer load(const std::string& directory);

  /// The ids of `text`. Throws input_error naming the byte when it is not UTF-8. O(n log n); memory O(n).
  encoding encode(std::string_view text) const;

  /// The bytes that `ids` stand for, one after the other, special tokens as their text, nothing added. Tokens may end
  /// inside a character: the result is UTF-8 when the ids come from `encode` (text_stream repairs the rest). Throws
  /// input_error naming an id that no token has.
  std::string decode(std::span<const std::int32_t> ids) const;

  /// The bytes of one token; valid as long as the tokenizer. Throws input_error.
  std::string_view bytes_of(std::int32_t id) const;

  /// One more than the largest id.
  std::int32_t size() const { return words_.size(); }

  /// The id of the token with these bytes, added tokens first.
  std::optional<std::int32_t> find(std::string_view bytes) const;

  /// Whether `id` is a special token (a marker and not text).
  bool is_special(std::int32_t id) const;

  /// Tokens that end a generated text, ascending: `eos_token` of tokenizer_config.json and `eos_token_id` of
  /// generation_config.json. May be empty.
  std::span<const std::int32_t> stop_ids() const { return stop_ids_; }

  /// The prompt that asks a chat model `user`, with the system message that its template adds when `system` is empty.
  /// Throws load_error when the model has no ChatML tokens or its chat template is of another kind.
  std::string chat_prompt(std::string_view user, std::string_view system = {}) const;

 private:
  class encoder;

  void read_tokenizer(const std::string& path);
  void read_normalizer(const json_place& place);
  void read_post_processor(const json_place& place);
  void read_template(const json_place& place);
  void read_configs(const std::string& directory);
  void read_chat(const std::string& directory, const nlohmann::json& config);

  vocabulary words_;
  added_token_finder raw_added_;         // for the text as it stands
  added_token_finder normalized_added_;  // for the text after NFC
  bool nfc_ = false;
  pre_tokenizer pre_tokenizer_;
  byte_pair_encoder pairs_;
  std::vector<std::int32_t> prefix_;  // ids that the template puts before the text
  std::vector<std::int32_t> suffix_;  // and after it
  std::vector<std::int32_t> stop_ids_;
  std::optional<chat_format> chat_;
  std::string no_chat_;  // why there is no chat_
};

/// Turns ids into text as they come, for a terminal: holds back a character whose bytes are not all there yet, and puts
/// U+FFFD for bytes that can never become one.
class text_stream {
 public:
  explicit text_stream(const tokenizer& source) : source_(&source) {}

  /// The text that `id` completes; may be empty. Throws input_error.
  std::string push(std::int32_t id);

  /// What is still held back; the stream is empty afterwards.
  std::string finish();

 private:
  const tokenizer* source_;
  std::string held_;
};

}  // namespace qwen3
