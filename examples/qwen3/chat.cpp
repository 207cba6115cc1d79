#include "chat.hpp"

#include <nlohmann/json.hpp>

#include "error.hpp"  // load_error, in_quotes

namespace qwen3 {

namespace {

constexpr std::string_view start = "<|im_start|>";
constexpr std::string_view end = "<|im_end|>\n";

// The string literal of Jinja whose opening quote is at `quote`, with its escapes resolved.
std::string literal_at(std::string_view program, std::size_t quote) {
  std::string result;
  for (std::size_t i = quote + 1; i < program.size() && program[i] != program[quote]; ++i) {
    if (program[i] != '\\' || i + 1 == program.size()) {
      result += program[i];
      continue;
    }
    ++i;
    result += program[i] == 'n' ? '\n' : program[i] == 't' ? '\t' : program[i];
  }
  return result;
}

// The first literal at or after `from` that begins with `<|im_start|>` and `role`, and where it is.
std::optional<std::pair<std::string, std::size_t>> find_turn(std::string_view program, std::size_t from,
                                                             std::string_view role) {
  const std::string begin = std::string(start) + std::string(role);
  for (auto at = program.find(begin, from); at != std::string_view::npos; at = program.find(begin, at + 1))
    if (at > 0 && (program[at - 1] == '\'' || program[at - 1] == '"'))
      return std::pair(literal_at(program, at - 1), at);
  return std::nullopt;
}

}  // namespace

chat_format::chat_format(std::string_view chat_template) {
  for (const std::string_view mark : {start, end.substr(0, end.size() - 1)})
    if (chat_template.find(mark) == std::string_view::npos)
      throw load_error("the chat template does not print " + std::string(mark) + "; only ChatML is known here");
  for (const std::string_view mark : {"bos_token", "|trim", "| trim"})
    if (chat_template.find(mark) != std::string_view::npos)
      throw load_error("the chat template uses " + in_quotes(mark) + ", which is not known here");
  const auto generation = chat_template.rfind("add_generation_prompt");
  const auto opening =
      generation == std::string_view::npos ? std::nullopt : find_turn(chat_template, generation, "assistant\\n");
  const auto opening_unescaped =
      generation == std::string_view::npos ? std::nullopt : find_turn(chat_template, generation, "assistant\n");
  if (!opening && !opening_unescaped) throw load_error("the chat template does not say how an answer begins");
  opening_ = (opening ? opening : opening_unescaped)->first;
  for (auto turn = find_turn(chat_template, 0, "system"); turn;
       turn = find_turn(chat_template, turn->second + 1, "system")) {
    const std::string whole_turn = std::string(start) + "system\n";
    if (!turn->first.starts_with(whole_turn) || !turn->first.ends_with(end)) continue;
    default_system_ = turn->first.substr(whole_turn.size(), turn->first.size() - whole_turn.size() - end.size());
    break;
  }
}

std::string chat_format::prompt(std::string_view user, std::string_view system) const {
  if (system.empty()) system = default_system_;
  std::string result;
  const auto say = [&result](std::string_view role, std::string_view text) {
    result.append(start).append(role).append("\n").append(text).append(end);
  };
  if (!system.empty()) say("system", system);
  say("user", user);
  return result + opening_;
}

std::optional<std::string> chat_template_of(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const nlohmann::json& entry : *found)
      if (entry.is_object() && entry.value("name", nlohmann::json()) == "default" && entry.contains("template") &&
          entry["template"].is_string())
        return entry["template"].get<std::string>();
  throw load_error("chat_template is neither a string nor a list with one named \"default\"");
}

}  // namespace qwen3
