#include "qwen3/pattern.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "qwen3/error.hpp"           // load_error
#include "qwen3/files.hpp"           // message_of
#include "qwen3/pattern_syntax.hpp"  // to_pcre2, literal_to_pcre2
#include "qwen3/texts.hpp"           // append_code, read_test_json

using qwen3::load_error;
using qwen3::matcher;
using qwen3::pattern;
using qwen3::to_pcre2;
using namespace qwen3_test;

namespace {

using text_list = std::vector<std::string>;

text_list split(std::string_view source, std::string_view text) {
  const pattern compiled(to_pcre2(source));
  matcher matches(compiled);
  text_list parts;
  matches.split(text, [&](std::size_t begin, std::size_t end) { parts.emplace_back(text.substr(begin, end - begin)); });
  return parts;
}

bool matches_whole(std::string_view source, std::string_view text) {
  const pattern compiled(to_pcre2(source));
  const auto found = matcher(compiled).find(text, 0);
  return found && found->begin == 0 && found->end == text.size();
}

std::string refusal(std::string_view source) {
  return message_of<load_error>([&] { to_pcre2(source); });
}

}  // namespace

TEST_CASE("pattern: classes hold the characters that the tokenizers library finds in them, all of Unicode") {
  const auto classes = read_test_json("classes.json");
  for (const auto& item : classes.items()) {
    const std::string& source = item.key();
    const auto& ranges = item.value();
    CAPTURE(source);
    const pattern compiled(to_pcre2(source));
    matcher matches(compiled);
    std::size_t next = 0;
    int wrong = 0;
    for (std::int32_t code = 0; code <= 0x10FFFF; ++code) {
      if (code == 0xD800) code = 0xE000;
      if (next < ranges.size() && code > ranges[next][1].get<std::int32_t>()) ++next;
      const bool expected = next < ranges.size() && code >= ranges[next][0].get<std::int32_t>();
      std::string text;
      append_code(text, code);
      if (matches.find(text, 0).has_value() != expected) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("pattern: every part of the syntax") {
  CHECK(split("b+", "abbcb") == text_list{"a", "bb", "c", "b"});
  CHECK(split("b*", "abbc") == text_list{"a", "bb", "c"});
  CHECK(split("", "ab") == text_list{"a", "b"});
  CHECK(split("x", "").empty());
  CHECK(split("(a|b)c", "xacbc") == text_list{"x", "ac", "bc"});
  CHECK(split("a(?!b)", "abac") == text_list{"ab", "a", "c"});
  CHECK(split("(?<=a)b", "bab") == text_list{"ba", "b"});
  CHECK(split("(?<!a)b", "bab") == text_list{"b", "ab"});
  CHECK(split("a(?=b)|(?>c+)c", "abccc") == text_list{"a", "bccc"});
  CHECK(split("a+?", "aa") == text_list{"a", "a"});
  CHECK(split("a++a|b", "aab") == text_list{"aa", "b"});
  CHECK(split("a{2}", "aaaaa") == text_list{"aa", "aa", "a"});
  CHECK(split("a{2,}|a{0,1}", "aaaba") == text_list{"aaa", "b", "a"});
  CHECK(split("^b", "b\nbb") == text_list{"b", "\n", "b", "b"});
  CHECK(split("b$", "bb\nb") == text_list{"b", "b", "\n", "b"});
  CHECK(split(".", "a\nb") == text_list{"a", "\n", "b"});
  CHECK(split("[a-c]+", "xabcx") == text_list{"x", "abc", "x"});
  CHECK(split("[^a-c]+", "xabcx") == text_list{"x", "abc", "x"});
  CHECK(split("[-+]+", "1-+2") == text_list{"1", "-+", "2"});
  CHECK(split("[+-]+", "1-+2") == text_list{"1", "-+", "2"});
  CHECK(split("[\\p{L}-]+", "1a-b2") == text_list{"1", "a-b", "2"});
  CHECK(split("[a\\]\\\\]+", "1a]\\2") == text_list{"1", "a]\\", "2"});
  CHECK(split("\\.\\*\\(", "a.*(b") == text_list{"a", ".*(", "b"});
  CHECK(split("[\\S\\n]+", "a\n b") == text_list{"a\n", " ", "b"});
  CHECK(split("\\D+", "1ab2") == text_list{"1", "ab", "2"});
  CHECK(split("\\P{L}+", "a12b") == text_list{"a", "12", "b"});
  CHECK(matches_whole("\\r\\n\\t\\f\\v\\a\\e\\x41\\x{1F600}\\u00e9",
                      "\r\n\t\f\v\a\x1b"
                      "A\xF0\x9F\x98\x80\xC3\xA9"));
  CHECK(matches_whole("\xE4\xB8\x80[\xE4\xB8\x80-\xE9\xBE\xA5]", "\xE4\xB8\x80\xE4\xB8\xAD"));
  CHECK(matches_whole("(?i:'s)", "'\xC5\xBF"));  // U+017F is a case of s
  CHECK(matches_whole("(?i:a(?:b)[cd])", "ABD"));
  CHECK_FALSE(matches_whole("(?i:a)b", "AB"));
  CHECK(matches_whole("# a", "# a"));
  CHECK(split("(?>\\p{L}+?)\\p{Lu}",
              "a\xC3\x9F"
              "AA1") == text_list{"a",
                                  "\xC3\x9F"
                                  "A",
                                  "A1"});  // see pattern.cpp
  const pattern literal(qwen3::literal_to_pcre2("a.+\\E"));
  CHECK(matcher(literal).find("xa.+\\E", 0)->begin == 1);
}

TEST_CASE("pattern: what is read in two ways, or not at all, is refused with its place") {
  const auto at = [](std::string_view source, std::string_view what, int byte) {
    return "pattern \"" + std::string(source) + "\" uses " + std::string(what) + " at byte " + std::to_string(byte) +
           ", which is not known here";
  };
  CHECK(refusal("a\\w") == at("a\\w", "\"\\w\"", 1));
  CHECK(refusal("\\b") == at("\\b", "\"\\b\"", 0));
  CHECK(refusal("\\h") == at("\\h", "\"\\h\"", 0));
  CHECK(refusal("(a)\\1") == at("(a)\\1", "\"\\1\"", 3));
  CHECK(refusal("\\p{Han}") == at("\\p{Han}", "the property \"Han\"", 0));
  CHECK(refusal("\\p{^L}") == at("\\p{^L}", "the property \"^L\"", 0));
  CHECK(refusal("\\pL") == at("\\pL", "an unfinished property", 0));
  CHECK(refusal("\\x{110000}") == at("\\x{110000}", "a character number that is none", 0));
  CHECK(refusal("\\ud800") == at("\\ud800", "a character number that is none", 0));
  CHECK(refusal("\\x4") == at("\\x4", "a character number that is none", 0));
  CHECK(refusal("(?i)a") == at("(?i)a", "the group \"(?i)\"", 0));
  CHECK(refusal("(?<n>a)") == at("(?<n>a)", "the group \"(?<n\"", 0));
  CHECK(refusal("(*UCP)") == at("(*UCP)", "the group \"(*UC\"", 0));
  CHECK(refusal("a{,3}") == at("a{,3}", "a { that begins no repeat", 1));
  CHECK(refusal("a{b") == at("a{b", "a { that begins no repeat", 1));
  CHECK(refusal("a{1,2}+") == at("a{1,2}+", "a repeat of a repeat", 6));
  CHECK(refusal("[a[b]]") == at("[a[b]]", "a class inside a class", 2));
  CHECK(refusal("[a&&b]") == at("[a&&b]", "a class inside a class", 2));
  CHECK(refusal("[\\P{L}]") == at("[\\P{L}]", "a negated set inside a class", 1));
  CHECK(refusal("[\\d-z]") == at("[\\d-z]", "a - after a set", 3));
  CHECK(refusal("[z-a]") == at("[z-a]", "a range that is none", 1));
  CHECK(refusal("[a-\\d]") == at("[a-\\d]", "a range that is none", 1));
  CHECK(refusal("[]a]") == at("[]a]", "an empty class", 0));
  CHECK(refusal("[a") == at("[a", "a class that is not closed", 0));
  CHECK(refusal("(a") == at("(a", "a group that is not closed", 2));
  CHECK(refusal("a)") == at("a)", "a ) without its (", 1));
  CHECK(refusal("a]") == at("a]", "\"]\" without its beginning", 1));
  CHECK(refusal("a\\") == at("a\\", "an unfinished construct", 2));
  CHECK(refusal("(?i:ss)") == at("(?i:ss)", "a character in (?i:...) whose cases differ in length", 5));
  CHECK(refusal("(?i:\xC3\x9F)") == at("(?i:\xC3\x9F)", "a character in (?i:...) whose cases differ in length", 4));
  CHECK(refusal("(?i:[\\p{L}])") == at("(?i:[\\p{L}])", "a class of more than ASCII in (?i:...)", 5));
  CHECK(message_of<load_error>([] { pattern{"(?<=a+)b"}; }).starts_with("PCRE2 cannot compile the pattern: "));
  CHECK(message_of<load_error>([] { pattern{to_pcre2("**")}; }).starts_with("PCRE2 cannot compile the pattern: "));
}
