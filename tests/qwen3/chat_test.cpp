#include "qwen3/chat.hpp"

#include <doctest/doctest.h>

#include "qwen3/error.hpp"      // load_error
#include "qwen3/files.hpp"      // temporary_directory, write_file, message_of
#include "qwen3/texts.hpp"      // read_test_json
#include "qwen3/tokenizer.hpp"  // tokenizer

using nlohmann::json;
using qwen3::chat_format;
using qwen3::load_error;
using qwen3::tokenizer;
using namespace qwen3_test;

namespace {

constexpr std::string_view turn = "{{'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n'}}";
constexpr std::string_view opening = "{% if add_generation_prompt %}{{'<|im_start|>assistant\\n'}}{% endif %}";

std::string refusal(const std::string& text) {
  return message_of<load_error>([&] { chat_format{text}; });
}

// The notebook's tokenizer with another tokenizer_config.json.
struct model_directory {
  explicit model_directory(const json& config) {
    write_file(files / "tokenizer.json", read_file(KVPOP_MODELS "/notebook/tokenizer.json"));
    write_file(files / "tokenizer_config.json", config.dump());
  }
  std::string prompt(std::string_view user) const { return tokenizer::load(files.path()).chat_prompt(user); }
  temporary_directory files;
};

json with_template(const json& value) { return json::object({{"chat_template", value}}); }

}  // namespace

TEST_CASE("chat_format: prompts are those that Jinja2 prints") {
  for (const json& row : read_test_json("chat.json")) {
    CAPTURE(row["name"].get<std::string>());
    const chat_format format(row["template"].get<std::string>());
    CHECK(format.prompt(row["user"].get<std::string>(), row["system"].get<std::string>()) ==
          row["prompt"].get<std::string>());
  }
}

TEST_CASE("chat_format: what would print something else is refused") {
  const std::string good = std::string(turn) + std::string(opening);
  CHECK(chat_format(good).prompt("a", "") == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
  CHECK(refusal("[INST] {{ m.content }} [/INST]") ==
        "the chat template does not print <|im_start|>; only ChatML is known here");
  CHECK(refusal("<|im_start|>") == "the chat template does not print <|im_end|>; only ChatML is known here");
  CHECK(refusal("{{ bos_token }}" + good) == "the chat template uses \"bos_token\", which is not known here");
  CHECK(refusal("{{ m.content | trim }}" + good) == "the chat template uses \"| trim\", which is not known here");
  CHECK(refusal(std::string(turn)) == "the chat template does not say how an answer begins");
  CHECK(refusal(std::string(turn) + "{% if add_generation_prompt %}{{ opening }}{% endif %}") ==
        "the chat template does not say how an answer begins");
}

TEST_CASE("tokenizer: where the chat template comes from") {
  const std::string template_with =
      "{{'<|im_start|>system\\nBe kind.<|im_end|>\\n'}}" + std::string(turn) + std::string(opening);
  const std::string plain = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  const std::string kind = "<|im_start|>system\nBe kind.<|im_end|>\n" + plain;
  CHECK(tokenizer::load(KVPOP_MODELS "/notebook").chat_prompt("Hi") == plain);
  CHECK(model_directory(with_template(nullptr)).prompt("Hi") == plain);
  CHECK(model_directory(with_template(template_with)).prompt("Hi") == kind);
  const json list = {{{"name", "tool_use"}, {"template", "x"}}, {{"name", "default"}, {"template", template_with}}};
  CHECK(model_directory(with_template(list)).prompt("Hi") == kind);
  const model_directory file(json::object());
  write_file(file.files / "chat_template.jinja", template_with);
  CHECK(file.prompt("Hi") == kind);

  const auto refused = [](const model_directory& d) { return message_of<load_error>([&] { d.prompt("Hi"); }); };
  const model_directory other(with_template("[INST]"));
  CHECK(refused(other) ==
        other.files.path() + ": the chat template does not print <|im_start|>; only ChatML is known here");
  const model_directory odd(with_template(5));
  CHECK(refused(odd) == odd.files.path() + ": chat_template is neither a string nor a list with one named \"default\"");

  json bare = json::parse(read_file(KVPOP_MODELS "/notebook/tokenizer.json"));
  bare["added_tokens"].erase(1);
  const model_directory without(json::object());
  write_file(without.files / "tokenizer.json", bare.dump());
  CHECK(refused(without) ==
        without.files.path() + ": the tokenizer has no token <|im_start|>; only ChatML is known for a chat");
}
