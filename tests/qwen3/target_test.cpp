#include "qwen3/target.hpp"

#include <doctest/doctest.h>

#include "files.hpp"        // message_of
#include "qwen3/error.hpp"  // usage_error

using qwen3::target_of;
using qwen3_test::message_of;

TEST_CASE("every name is understood and comes back") {
  for (const char* name : {"rms", "mean", "max", "sum", "power:3", "power:1.5"}) {
    CAPTURE(name);
    CHECK(qwen3::name_of(target_of(name)) == name);
  }
  CHECK(qwen3::name_of(target_of("power:2")) == "rms");
  CHECK(qwen3::name_of(target_of("power:1")) == "mean");
  CHECK(target_of("power:0.5").alpha == 0.5);
}

TEST_CASE("other names are refused with what there is") {
  for (const char* name :
       {"", "RMS", "power:", "power:x", "power:2x", "power:0", "power:-1", "power:inf", "power:nan", "power:1e9"}) {
    const std::string message = message_of<qwen3::usage_error>([&] { target_of(name); });
    CAPTURE(message);
    CHECK(message.find("it must be rms, mean, max, sum or power:A") != std::string::npos);
    CHECK(message.find(std::string("\"") + name + "\"") != std::string::npos);
  }
}
