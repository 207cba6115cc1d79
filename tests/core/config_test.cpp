#include "kvpop/core/config.hpp"

#include <doctest/doctest.h>

#include <string>
#include <type_traits>

// The inline ABI namespace: version, then one digit a feature, so that differently compiled code never shares a symbol.

KVPOP_NAMESPACE_BEGIN
struct config_probe {};
KVPOP_NAMESPACE_END

namespace {

template <class T>
std::string name_of() {
  return __PRETTY_FUNCTION__;
}

#define KVPOP_TEST_TEXT_(x) #x
#define KVPOP_TEST_TEXT(x) KVPOP_TEST_TEXT_(x)

const std::string abi = KVPOP_TEST_TEXT(KVPOP_ABI_NAMESPACE);
constexpr std::size_t features = 15;

}  // namespace

TEST_CASE("the ABI namespace spells version and features, and names are found without it") {
  const std::string version = "v" + std::to_string(KVPOP_VERSION_MAJOR) + "_" + std::to_string(KVPOP_VERSION_MINOR) +
                              "_" + std::to_string(KVPOP_VERSION_PATCH) + "_";
  CHECK(abi.substr(0, version.size()) == version);
  const std::string digits = abi.substr(version.size());
  CHECK(digits.size() == features);
  CHECK(digits.find_first_not_of("0123456789") == std::string::npos);
  CHECK(std::is_same_v<kvpop::config_probe, kvpop::KVPOP_ABI_NAMESPACE::config_probe>);
#if defined(__clang__)
  CHECK(name_of<kvpop::config_probe>().find("config_probe") !=
        std::string::npos);  // clang leaves inline namespaces out
#else
  CHECK(name_of<kvpop::config_probe>().find("kvpop::" + abi + "::config_probe") != std::string::npos);
#endif
}

TEST_CASE("the digits are those of this file's flags") {
  const std::string digits = abi.substr(abi.size() - features);
  const auto digit = [&](std::size_t i) { return digits[i] - '0'; };
#if defined(__AVX2__)
  CHECK(digit(2) == 2);
#elif defined(__AVX__)
  CHECK(digit(2) == 1);
#else
  CHECK(digit(2) == 0);
#endif
#if defined(__FMA__)
  CHECK(digit(3) == 1);
#else
  CHECK(digit(3) == 0);
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
  CHECK(digit(7) == 2);
#elif defined(__AVX512F__)
  CHECK(digit(7) == 1);
#else
  CHECK(digit(7) == 0);
#endif
#if defined(__FAST_MATH__)
  CHECK(digit(13) == 1);
#else
  CHECK(digit(13) == 0);
#endif
#if defined(__cpp_exceptions)
  CHECK(digit(14) == 1);
#else
  CHECK(digit(14) == 0);
#endif
}

TEST_CASE("indices are signed and 64 bits") {
  static_assert(std::is_signed_v<kvpop::index_t> && sizeof(kvpop::index_t) == 8);
  CHECK(kvpop::index_t{-1} < kvpop::index_t{0});
}
