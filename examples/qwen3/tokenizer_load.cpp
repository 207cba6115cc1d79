// How a tokenizer comes from the files of a Hugging Face directory; what it then does is in tokenizer.cpp.

#include <algorithm>
#include <filesystem>

#include "error.hpp"        // load_error, in_quotes
#include "json_file.hpp"    // read_json_file
#include "mapped_file.hpp"  // mapped_file
#include "nfc.hpp"          // nfc_changes
#include "tokenizer.hpp"    // tokenizer

namespace qwen3 {

namespace {

constexpr std::size_t longest_tokenizer_file = std::size_t{256} << 20;
constexpr std::size_t longest_config_file = std::size_t{16} << 20;

nlohmann::json read_optional(const std::string& path) {
  return std::filesystem::exists(path) ? read_json_file(path, longest_config_file) : nlohmann::json::object();
}

void check_decoder(const json_place& place) {
  if (place.null()) place.refuse("is missing; only \"ByteLevel\" is known here");
  if (place.type() == "ByteLevel") return place.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  if (place.type() != "Sequence")
    place.refuse("is of type " + in_quotes(place.type()) + "; only \"ByteLevel\" is known here");
  place.only({"type", "decoders"});
  const json_place list = place.member("decoders");
  if (list.array_size() != 1)
    list.refuse("has more or less than one decoder; only a single \"ByteLevel\" is known here");
  check_decoder(list.element(0));
}

// A token as the configuration files write it: its text, or an object with `content`.
std::string token_text(const json_place& place) {
  return place.value().is_object() ? place.member("content").text() : place.text();
}

}  // namespace

tokenizer tokenizer::load(const std::string& directory) {
  tokenizer result;
  result.read_tokenizer(directory + "/tokenizer.json");
  result.read_configs(directory);
  return result;
}

void tokenizer::read_tokenizer(const std::string& path) {
  const nlohmann::json file = read_json_file(path, longest_tokenizer_file);
  const json_place root(file, path);
  root.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
             "decoder", "model"});
  if (root.has("version") && root.member("version").text() != "1.0")
    root.member("version").refuse("is " + in_quotes(root.member("version").text()) + "; only \"1.0\" is known here");
  for (const char* name : {"truncation", "padding"})
    if (root.has(name)) root.member(name).refuse("is set, which is not known here");
  read_normalizer(root.member("normalizer"));
  const std::vector<added_token> added = parse_added_tokens(root.member("added_tokens"));
  const json_place model = root.member("model");
  words_ = vocabulary(model.member("vocab"), added);
  pairs_ = byte_pair_encoder(model, words_);
  pre_tokenizer_ = pre_tokenizer(root.member("pre_tokenizer"));
  for (const added_token& token : added) {
    std::string content = token.content;
    if (token.normalized && nfc_) nfc_changes(token.content, content);
    (token.normalized ? normalized_added_ : raw_added_).add(content, token);
  }
  read_post_processor(root.member("post_processor"));
  check_decoder(root.member("decoder"));
}

void tokenizer::read_normalizer(const json_place& place) {
  if (place.null()) return;
  const std::string& type = place.type();
  if (type == "NFC") {
    place.only({"type"});
    nfc_ = true;
  } else if (type == "Sequence") {
    place.only({"type", "normalizers"});
    const json_place list = place.member("normalizers");
    for (std::size_t i = 0; i < list.array_size(); ++i) read_normalizer(list.element(i));
  } else {
    place.refuse("is of type " + in_quotes(type) + "; only \"NFC\" and \"Sequence\" are known here");
  }
}

void tokenizer::read_post_processor(const json_place& place) {
  if (place.null()) return;
  const std::string& type = place.type();
  if (type == "ByteLevel") {
    place.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // moves offsets, adds nothing
  } else if (type == "TemplateProcessing") {
    read_template(place);
  } else if (type == "Sequence") {
    place.only({"type", "processors"});
    const json_place list = place.member("processors");
    for (std::size_t i = 0; i < list.array_size(); ++i) read_post_processor(list.element(i));
  } else {
    place.refuse("is of type " + in_quotes(type) +
                 "; only \"ByteLevel\", \"TemplateProcessing\" and \"Sequence\" are known here");
  }
}

void tokenizer::read_template(const json_place& place) {
  place.only({"type", "single", "pair", "special_tokens"});
  if (!prefix_.empty() || !suffix_.empty()) place.refuse("is a second template, which is not known here");
  const json_place parts = place.member("single");
  bool text_seen = false;
  for (std::size_t i = 0; i < parts.array_size(); ++i) {
    const json_place part = parts.element(i);
    part.only({"SpecialToken", "Sequence"});
    if (part.has("Sequence")) {
      if (text_seen || part.member("Sequence").member("id").text() != "A")
        part.refuse("is not the one text of this template");
      text_seen = true;
      continue;
    }
    const std::string& name = part.member("SpecialToken").member("id").text();
    const json_place ids = place.member("special_tokens").member(name.c_str()).member("ids");
    for (std::size_t k = 0; k < ids.array_size(); ++k) {
      const std::int32_t id = ids.element(k).id();
      if (!words_.contains(id)) ids.element(k).refuse("is an id that no token has");
      (text_seen ? suffix_ : prefix_).push_back(id);
    }
  }
  if (!text_seen) parts.refuse("has no place for the text");
}

void tokenizer::read_configs(const std::string& directory) {
  const std::string config_path = directory + "/tokenizer_config.json";
  const nlohmann::json config = read_optional(config_path);
  const json_place root(config, config_path);
  if (root.has("eos_token")) {
    const std::string text = token_text(root.member("eos_token"));
    const auto id = find(text);
    if (!id) root.member("eos_token").refuse("is " + in_quotes(text) + ", which tokenizer.json does not have");
    stop_ids_.push_back(*id);
  }
  for (const char* name : {"add_bos_token", "add_eos_token"}) {
    const bool there = name[4] == 'b' ? !prefix_.empty() : !suffix_.empty();
    if (root.has(name) && root.member(name).flag() && !there)
      root.member(name).refuse("is true, but the post_processor of tokenizer.json adds no such token");
  }
  const std::string generation_path = directory + "/generation_config.json";
  const nlohmann::json generation = read_optional(generation_path);
  const json_place stops = json_place(generation, generation_path).member("eos_token_id");
  if (stops.value().is_array())
    for (std::size_t i = 0; i < stops.array_size(); ++i) stop_ids_.push_back(stops.element(i).id());
  else if (!stops.null())
    stop_ids_.push_back(stops.id());
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
  read_chat(directory, config);
}

// A template that is not understood is no reason not to load: only a chat needs it.
void tokenizer::read_chat(const std::string& directory, const nlohmann::json& config) {
  const std::string path = directory + "/chat_template.jinja";
  for (const char* mark : {"<|im_start|>", "<|im_end|>"}) {
    if (words_.find_added(mark)) continue;
    no_chat_ = directory + ": the tokenizer has no token " + mark + "; only ChatML is known for a chat";
    return;
  }
  try {
    const auto text =
        std::filesystem::exists(path) ? std::string(mapped_file::open(path).text()) : chat_template_of(config);
    chat_ = text ? chat_format(*text) : chat_format();
  } catch (const load_error& error) {
    no_chat_ = directory + ": " + error.what();
  }
}

}  // namespace qwen3
