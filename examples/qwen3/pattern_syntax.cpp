#include "pattern_syntax.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "error.hpp"            // load_error, in_quotes
#include "unicode_classes.hpp"  // white_space, new_in_unicode_15_and_16
#include "utf8.hpp"             // first_utf8

namespace qwen3 {

namespace {

constexpr char32_t last_character = 0x10FFFF;

std::string hex(char32_t code) {
  char digits[8] = {};
  const auto end = std::to_chars(digits, digits + sizeof(digits), static_cast<unsigned>(code), 16).ptr;
  return "\\x{" + std::string(digits, end) + "}";
}

std::string range(char32_t first, char32_t last) { return first == last ? hex(first) : hex(first) + "-" + hex(last); }

// Members of a class that mean white space, or everything else.
std::string space_members(bool negated) {
  std::string result;
  char32_t next = 0;
  for (const code_range& space : white_space) {
    if (negated && space.first > next) result += range(next, space.first - 1);
    if (!negated) result += range(space.first, space.last);
    next = space.last + 1;
  }
  return negated ? result + range(next, last_character) : result;
}

// Members of a class that mean a general category of Unicode 16, one letter or two.
std::string category_members(std::string_view category) {
  std::string result = "\\p{" + std::string(category) + "}";
  std::optional<code_range> open;
  for (const categorised_range& added : new_in_unicode_15_and_16) {
    if (!std::string_view(added.category).starts_with(category)) continue;
    if (open && open->last + 1 == added.first) {
      open->last = added.last;
      continue;
    }
    if (open) result += range(open->first, open->last);
    open = code_range{added.first, added.last};
  }
  return open ? result + range(open->first, open->last) : result;
}

bool known_category(std::string_view name) {
  constexpr std::string_view known[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",
                                        "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
                                        "S",  "Sm", "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp"};
  return std::find(std::begin(known), std::end(known), name) != std::end(known);
}

bool ascii_alphanumeric(char32_t code) {
  return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}

// What an escape stands for: one character, or the members of a class.
struct meaning {
  std::optional<char32_t> code;
  std::string members;
  bool negated = false;  // of a set
};

class translator {
 public:
  explicit translator(std::string_view source) : source_(source) {}

  std::string run() {
    while (!done()) step();
    if (!ignores_case_.empty()) refuse(source_.size(), "a group that is not closed");
    return result_;
  }

 private:
  bool done() const { return at_ == source_.size(); }
  bool next_is(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  bool ignoring_case() const { return !ignores_case_.empty() && ignores_case_.back(); }

  bool skip(std::string_view text) {
    if (!next_is(text)) return false;
    at_ += text.size();
    return true;
  }

  [[noreturn]] void refuse(std::size_t where, const std::string& what) const {
    throw load_error("pattern " + in_quotes(source_) + " uses " + what + " at byte " + std::to_string(where) +
                     ", which is not known here");
  }

  char32_t take() {
    if (done()) refuse(at_, "an unfinished construct");
    const utf8_unit unit = first_utf8(source_.substr(at_));
    at_ += unit.size;
    return unit.code;
  }

  void step() {
    const std::size_t begin = at_;
    const char32_t code = take();
    const char32_t before = std::exchange(literal_before_, 0);
    switch (code) {
      case '\\':
        return add_escape(begin);
      case '[':
        return add_class(begin);
      case '(':
        return open_group(begin);
      case ')':
        return close_group(begin);
      case '|':
        result_ += '|';
        return;
      case '*':
      case '+':
      case '?':
        return add_repeat(code);
      case '{':
        return add_counted_repeat(begin);
      case '^':
        result_ += "(?m:^)";
        return;  // Ruby's are of the line
      case '$':
        result_ += "(?m:$)";
        return;
      case '.':
        result_ += "[^\\x{a}]";
        return;
      case ']':
      case '}':
        refuse(begin, in_quotes(source_.substr(begin, 1)) + " without its beginning");
      default:
        add_literal(begin, code, before);
    }
  }

  // Oniguruma lets one character match two when case does not count (U+00DF and "ss"); PCRE2 does not.
  void add_literal(std::size_t begin, char32_t code, char32_t before) {
    if (ignoring_case()) {
      constexpr std::string_view folded[] = {"ss", "st", "ff", "fi", "fl"};
      const auto lower = [](char32_t c) { return c < 0x80 ? static_cast<char>(c | 0x20u) : '\0'; };
      const char pair[] = {lower(before), lower(code)};
      const bool several =
          std::find(std::begin(folded), std::end(folded), std::string_view(pair, 2)) != std::end(folded);
      if (code >= 0x80 || several) refuse(begin, "a character in (?i:...) whose cases differ in length");
    }
    literal_before_ = code;
    result_ += ascii_alphanumeric(code) ? std::string(1, static_cast<char>(code)) : hex(code);
  }

  void add_escape(std::size_t begin) {
    const meaning what = escape(begin);
    if (what.code) return add_literal(begin, *what.code, 0);
    result_ += (what.negated ? "[^" : "[") + what.members + "]";
  }

  meaning escape(std::size_t begin) {
    const char32_t code = take();
    switch (code) {
      case 'r':
        return {U'\r', {}};
      case 'n':
        return {U'\n', {}};
      case 't':
        return {U'\t', {}};
      case 'f':
        return {U'\f', {}};
      case 'v':
        return {U'\v', {}};
      case 'a':
        return {U'\a', {}};
      case 'e':
        return {char32_t{0x1B}, {}};
      case 'x':
        return {skip("{") ? hexadecimal(begin, 1, 6, "}") : hexadecimal(begin, 2, 2, ""), {}};
      case 'u':
        return {hexadecimal(begin, 4, 4, ""), {}};
      case 's':
        return {std::nullopt, space_members(false)};
      case 'S':
        return {std::nullopt, space_members(true)};
      case 'd':
        return {std::nullopt, category_members("Nd")};
      case 'D':
        return {std::nullopt, category_members("Nd"), true};
      case 'p':
        return {std::nullopt, category_members(category(begin))};
      case 'P':
        return {std::nullopt, category_members(category(begin)), true};
      default:
        break;
    }
    if (code >= 0x80 || ascii_alphanumeric(code)) refuse(begin, in_quotes(source_.substr(begin, at_ - begin)));
    return {code, {}};
  }

  std::string_view category(std::size_t begin) {
    const std::size_t end = source_.find('}', at_);
    if (!skip("{") || end == std::string_view::npos) refuse(begin, "an unfinished property");
    const std::string_view name = source_.substr(at_, end - at_);
    if (!known_category(name)) refuse(begin, "the property " + in_quotes(name));
    at_ = end + 1;
    return name;
  }

  char32_t hexadecimal(std::size_t begin, std::size_t least, std::size_t most, std::string_view closing) {
    unsigned code = 0;
    const char* const first = source_.data() + at_;
    const char* const last = first + std::min(most, source_.size() - at_);
    const auto [end, problem] = std::from_chars(first, last, code, 16);
    const auto digits = static_cast<std::size_t>(end - first);
    at_ += digits;
    if (problem != std::errc() || digits < least || !skip(closing) || code > last_character ||
        (code >= 0xD800 && code < 0xE000))
      refuse(begin, "a character number that is none");
    return code;
  }

  void open_group(std::size_t begin) {
    bool ignore = ignoring_case();
    constexpr std::string_view same[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};
    const auto kind = std::find_if(std::begin(same), std::end(same), [this](std::string_view k) { return next_is(k); });
    if (kind != std::end(same)) {
      result_ += "(" + std::string(*kind);
      at_ += kind->size();
    } else if (skip("?i:")) {
      result_ += "(?i:";
      ignore = true;
    } else if (next_is("?") || next_is("*")) {
      refuse(begin, "the group " + in_quotes(source_.substr(begin, 4)));
    } else {
      result_ += "(?:";
    }
    ignores_case_.push_back(ignore);
  }

  void close_group(std::size_t begin) {
    if (ignores_case_.empty()) refuse(begin, "a ) without its (");
    ignores_case_.pop_back();
    result_ += ')';
  }

  void add_repeat(char32_t code) {
    result_ += static_cast<char>(code);
    if (skip("?"))
      result_ += '?';
    else if (skip("+"))
      result_ += '+';
  }

  // Ruby reads what follows a counted repeat in its own way, and a lone { as itself.
  void add_counted_repeat(std::size_t begin) {
    const std::size_t end = source_.find('}', at_);
    const std::string_view inside = end == std::string_view::npos ? "" : source_.substr(at_, end - at_);
    const auto comma = std::min(inside.find(','), inside.size());
    const auto number = [](std::string_view text) {
      return text.size() <= 4 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    const std::string_view low = inside.substr(0, comma);
    const std::string_view high = inside.substr(std::min(comma + 1, inside.size()));
    if (inside.empty() || low.empty() || !number(low) || !number(high)) refuse(begin, "a { that begins no repeat");
    result_ += "{" + std::string(inside) + "}";
    at_ = end + 1;
    if (next_is("?") || next_is("+") || next_is("*") || next_is("{")) refuse(at_, "a repeat of a repeat");
  }

  void add_class(std::size_t begin) {
    if (ignoring_case()) ascii_only_ = true;
    result_ += skip("^") ? "[^" : "[";
    if (next_is("]")) refuse(begin, "an empty class");
    bool set_before = false;
    while (!skip("]")) {
      const std::size_t where = at_;
      const meaning first = member(begin);
      if (first.code == U'-' && source_[where] == '-' && set_before && !next_is("]")) refuse(where, "a - after a set");
      set_before = !first.code;
      if (!first.code) {
        if (first.negated) refuse(where, "a negated set inside a class");
        result_ += first.members;
        continue;
      }
      if (!next_is("-") || source_.substr(at_).starts_with("-]")) {
        result_ += hex(*first.code);
        continue;
      }
      skip("-");
      const meaning last = member(begin);
      if (!last.code || *last.code < *first.code) refuse(where, "a range that is none");
      result_ += range(*first.code, *last.code);
      set_before = true;
    }
    result_ += ']';
    ascii_only_ = false;
  }

  meaning member(std::size_t begin) {
    const std::size_t where = at_;
    if (done()) refuse(begin, "a class that is not closed");
    if (next_is("[") || next_is("&&")) refuse(where, "a class inside a class");
    const char32_t code = take();
    meaning result = code == '\\' ? escape(where) : meaning{code, {}};
    if (ascii_only_ && (!result.code || *result.code >= 0x80)) refuse(where, "a class of more than ASCII in (?i:...)");
    return result;
  }

  std::string_view source_;
  std::size_t at_ = 0;
  std::string result_;
  std::vector<bool> ignores_case_;  // of the open groups
  char32_t literal_before_ = 0;
  bool ascii_only_ = false;
};

}  // namespace

std::string to_pcre2(std::string_view pattern) { return translator(pattern).run(); }

std::string literal_to_pcre2(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const utf8_unit unit = first_utf8(text);
    result += hex(unit.code);
    text.remove_prefix(unit.size);
  }
  return result;
}

}  // namespace qwen3
