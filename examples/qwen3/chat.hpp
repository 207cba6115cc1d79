#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace qwen3 {

/// How a chat model wants to be asked: ChatML, `<|im_start|>role\n...<|im_end|>\n`, with what differs between models.
///
/// Made from the text of the model's chat template, which is a Jinja program; it is not run. Read from it are the system
/// message it adds by itself and how it opens the answer; signs of anything else that would show in a prompt of one
/// question refuse the template.
class chat_format {
 public:
  /// Plain ChatML: no system message of its own.
  chat_format() = default;

  /// Of a chat template in Jinja. Throws load_error saying what of it is not known.
  explicit chat_format(std::string_view chat_template);

  /// The prompt for one question. `system` empty: the template's own system message, if it has one.
  std::string prompt(std::string_view user, std::string_view system) const;

 private:
  std::string default_system_;
  std::string opening_ = "<|im_start|>assistant\n";
};

/// The text of the chat template in a tokenizer_config.json: a string, or the entry "default" of a list. Nothing when there
/// is none.
std::optional<std::string> chat_template_of(const nlohmann::json& config);

}  // namespace qwen3
