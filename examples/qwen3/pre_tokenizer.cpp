#include "pre_tokenizer.hpp"

#include "error.hpp"           // in_quotes, load_error
#include "pattern_syntax.hpp"  // to_pcre2, literal_to_pcre2

namespace qwen3 {

namespace {

// ByteLevel's own, that of GPT-2.
constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Digits asks Rust what is numeric, which by now is as Unicode 17 has it: two ranges more than \p{N}.
constexpr std::string_view digit_pattern = R"([\p{N}\x{11DE0}-\x{11DE9}\x{16FF4}-\x{16FF6}])";

std::unique_ptr<pattern> compile(const json_place& place, const std::string& source) {
  try {
    return std::make_unique<pattern>(source);
  } catch (const load_error& error) {
    place.refuse(error.what());
  }
}

std::unique_ptr<pattern> compile_regex(const json_place& place, std::string_view source) {
  std::string translated;
  try {
    translated = to_pcre2(source);
  } catch (const load_error& error) {
    place.refuse(error.what());
  }
  return compile(place, translated);
}

}  // namespace

pre_tokenizer::scratch::scratch(const pre_tokenizer& source) {
  matchers_.reserve(source.steps_.size());
  for (const step& one : source.steps_)
    matchers_.push_back(one.matches ? std::optional<matcher>(*one.matches) : std::nullopt);
}

pre_tokenizer::pre_tokenizer(const json_place& place) {
  if (!place.null()) add(place);
  if (!bytes_) place.refuse("has no ByteLevel step; only byte-level tokenizers are known here");
}

void pre_tokenizer::add(const json_place& place) {
  const std::string& type = place.type();
  if (bytes_) place.refuse("has a step " + in_quotes(type) + " after ByteLevel, which is not known here");
  if (type == "Sequence") {
    place.only({"type", "pretokenizers"});
    const json_place list = place.member("pretokenizers");
    for (std::size_t i = 0; i < list.array_size(); ++i) add(list.element(i));
  } else if (type == "Split") {
    add_split(place);
  } else if (type == "ByteLevel") {
    add_byte_level(place);
  } else if (type == "Digits") {
    place.only({"type", "individual_digits"});
    const bool individual = place.has("individual_digits") && place.member("individual_digits").flag();
    steps_.push_back({false, compile_regex(place, std::string(digit_pattern) + (individual ? "" : "+"))});
  } else {
    place.refuse("is of type " + in_quotes(type) +
                 "; only \"Sequence\", \"Split\", \"Digits\" and \"ByteLevel\" are known here");
  }
}

void pre_tokenizer::add_split(const json_place& place) {
  place.only({"type", "pattern", "behavior", "invert"});
  const json_place behavior = place.member("behavior");
  // Isolated keeps matches and what is between them alike, so that `invert` says nothing.
  if (behavior.text() != "Isolated")
    behavior.refuse("is " + in_quotes(behavior.text()) + "; only \"Isolated\" is known here");
  if (place.has("invert")) place.member("invert").flag();
  const json_place source = place.member("pattern");
  source.only({"Regex", "String"});
  if (source.has("Regex") == source.has("String")) source.refuse("must have one of \"Regex\" and \"String\"");
  if (source.has("Regex")) {
    const json_place regex = source.member("Regex");
    steps_.push_back({false, compile_regex(regex, regex.text())});
  } else {
    const json_place literal = source.member("String");
    if (literal.text().empty()) literal.refuse("is empty");
    steps_.push_back({false, compile(literal, literal_to_pcre2(literal.text()))});
  }
}

void pre_tokenizer::add_byte_level(const json_place& place) {
  place.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  const auto flag = [&](const char* name, bool otherwise) {
    return place.has(name) ? place.member(name).flag() : otherwise;
  };
  flag("trim_offsets", true);  // of the offsets that the library reports; the ids do not depend on it
  step added{flag("add_prefix_space", true), nullptr};
  if (flag("use_regex", true)) added.matches = compile_regex(place, gpt2_pattern);
  steps_.push_back(std::move(added));
  bytes_ = true;
}

}  // namespace qwen3
