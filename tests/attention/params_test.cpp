#include "kvpop/attention/params.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "support/cache_block.hpp"  // message_of

using kvpop::attention_params;
using kvpop_test::message_of;

TEST_CASE("the default scale is one over the root of the key dimension, and nothing else is on") {
  const attention_params params;
  CHECK(params.scale_for(64) == 0.125F);
  CHECK(params.scale_for(128) == doctest::Approx(0.0883883476483184).epsilon(1e-7));
  CHECK(params.soft_cap == 0.0F);
  CHECK(params.sliding_window == 0);
  CHECK(message_of([&] { params.validate(); }) == "no error");
}

TEST_CASE("a scale that is given is taken as it is") {
  attention_params params;
  params.scale = 0.3F;
  CHECK(params.scale_for(64) == 0.3F);
}

TEST_CASE("what makes no sense is refused by name, with its value and the limit") {
  attention_params params;
  params.scale = -1.0F;
  CHECK(message_of([&] { params.validate(); }) ==
        "kvpop: attention_params.scale is -1.000000; it must be finite and at least 0 (0 = default)");
  params.scale = std::numeric_limits<float>::infinity();
  CHECK(message_of([&] { params.validate(); }).find("attention_params.scale is inf") != std::string::npos);
  params.scale = std::numeric_limits<float>::quiet_NaN();
  CHECK(message_of([&] { params.validate(); }).find("attention_params.scale is nan") != std::string::npos);
  params = {};
  params.soft_cap = -50.0F;
  CHECK(message_of([&] { params.validate(); }).find("attention_params.soft_cap is -50") != std::string::npos);
  params = {};
  params.sliding_window = -1;
  CHECK(message_of([&] { params.validate(); }) ==
        "kvpop: attention_params.sliding_window is -1; it must be at least 0 (0 = no limit)");
}
