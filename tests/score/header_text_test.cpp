#include "kvpop/score/header_text.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using kvpop::error;
using kvpop::header_text;
using kvpop::in_quotes;

const std::string file = "f";

std::string read_string(const std::string& text) {
  header_text t(text, file);
  std::string value = t.string();
  t.expect_end();
  return value;
}

kvpop::index_t read_integer(const std::string& text) {
  header_text t(text, file);
  const kvpop::index_t value = t.integer();
  t.expect_end();
  return value;
}

#define CHECK_FAILS(expression, message) \
  CHECK_THROWS_WITH_AS(static_cast<void>(expression), "kvpop: f: byte " message, error)

TEST_CASE("strings") {
  CHECK(read_string(R"( "plain" )") == "plain");
  CHECK(read_string(R"("")").empty());
  CHECK(read_string(R"("\"\\\/\b\f\n\r\t")") == "\"\\/\b\f\n\r\t");
  CHECK(read_string(R"("\u0041\u00e9\u20AC\ud83d\ude00")") == "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  CHECK(read_string("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"") == "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
}

TEST_CASE("strings that are none") {
  CHECK_FAILS(read_string("x"), "0 of the header: expected '\"'");
  CHECK_FAILS(read_string(""), "0 of the header: expected '\"', found the end");
  CHECK_FAILS(read_string("\"ab"), "3 of the header: a string has no end");
  CHECK_FAILS(read_string("\"a\nb\""), "2 of the header: a control character in a string");
  CHECK_FAILS(read_string(R"("\x")"), "2 of the header: an escape that JSON does not know");
  CHECK_FAILS(read_string("\"\\"), "2 of the header: an escape that JSON does not know");
  CHECK_FAILS(read_string(R"("\u12g4")"), "5 of the header: \\u needs four hexadecimal digits");
  CHECK_FAILS(read_string(R"("\u12)"), "5 of the header: \\u needs four hexadecimal digits");
  CHECK_FAILS(read_string(R"("\ud800")"), "7 of the header: half of a surrogate pair");
  CHECK_FAILS(read_string(R"("\ude00")"), "7 of the header: half of a surrogate pair");
  CHECK_FAILS(read_string(R"("\ud800\u0041")"), "13 of the header: half of a surrogate pair");
  CHECK_FAILS(read_string(R"("a" b)"), "4 of the header: text after the end of the header");
}

TEST_CASE("bytes that are not UTF-8") {
  for (const std::string bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xc1\xbf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80", "\xff", "\xe2\x82", "\xe2\x28\xa1"}) {
    CAPTURE(bad.size());
    CHECK_FAILS(read_string("\"" + bad + "\""), "1 of the header: a string is not UTF-8");
  }
}

TEST_CASE("integers") {
  CHECK(read_integer("0") == 0);
  CHECK(read_integer(" 42 ") == 42);
  CHECK(read_integer("9223372036854775807") == INT64_MAX);
  CHECK_FAILS(read_integer("9223372036854775808"), "18 of the header: a number does not fit 63 bits");
  CHECK_FAILS(read_integer("99999999999999999999999999"), "18 of the header: a number does not fit 63 bits");
  CHECK_FAILS(read_integer("-1"), "0 of the header: expected a non-negative integer");
  CHECK_FAILS(read_integer("+1"), "0 of the header: expected a non-negative integer");
  CHECK_FAILS(read_integer("01"), "2 of the header: a number begins with 0");
  CHECK_FAILS(read_integer("1.0"), "1 of the header: text after the end of the header");
  CHECK_FAILS(read_integer("1e3"), "1 of the header: text after the end of the header");
  CHECK_FAILS(read_integer(""), "0 of the header: expected a non-negative integer");
}

TEST_CASE("names in messages are short and printable") {
  CHECK(in_quotes("wk") == "'wk'");
  CHECK(in_quotes("a\nb\x80") == "'a?b?'");
  CHECK(in_quotes(std::string(65, 'x')) == "'" + std::string(64, 'x') + "..'");
}

}  // namespace
