#include "kvpop/train/schedule.hpp"

#include <doctest/doctest.h>

#include "support/message_of.hpp"  // message_of

using kvpop::schedule;
using kvpop::schedule_shape;

namespace {

TEST_CASE("linear up to the peak, then half a cosine down to the floor") {
  const schedule s{2.0, 4, 24, schedule_shape::cosine, 0.1};
  CHECK(s.at(1) == doctest::Approx(0.5));
  CHECK(s.at(4) == doctest::Approx(2.0));
  CHECK(s.at(14) == doctest::Approx(2.0 * (0.1 + 0.9 * 0.5)));
  CHECK(s.at(24) == doctest::Approx(0.2));
  CHECK(s.at(1000) == doctest::Approx(0.2));
  for (kvpop::index_t step = 5; step <= 24; ++step) CHECK(s.at(step) < s.at(step - 1));
}

TEST_CASE("constant after warm-up; no warm-up begins at the peak; all warm-up ends there") {
  CHECK(schedule{3.0, 2, 9, schedule_shape::constant}.at(1) == doctest::Approx(1.5));
  CHECK(schedule{3.0, 2, 9, schedule_shape::constant}.at(9) == 3.0);
  CHECK(schedule{3.0, 0, 1}.at(1) == doctest::Approx(0.0));
  CHECK(schedule{3.0, 0, 1000}.at(1) == doctest::Approx(3.0).epsilon(1e-4));
  CHECK(schedule{3.0, 5, 5}.at(5) == doctest::Approx(3.0));
  CHECK(schedule{3.0, 5, 5}.at(6) == doctest::Approx(0.0));
}

TEST_CASE("step 0 is 0 with a warm-up and the peak without one") {
  for (const auto shape : {schedule_shape::cosine, schedule_shape::constant}) {
    CHECK(schedule{3.0, 2, 9, shape}.at(0) == 0.0);
    CHECK(schedule{3.0, 0, 9, shape}.at(0) == 3.0);
  }
  CHECK(schedule{3.0, 0, 9, schedule_shape::constant}.at(1) == 3.0);
  CHECK(schedule{3.0, 0, 9, schedule_shape::constant}.at(10) == 3.0);
}

TEST_CASE("what does not fit is refused by name") {
  using kvpop_test::message_of;
  CHECK(message_of([] { schedule{1.0, 0, 0}.validate(); }) == "kvpop: schedule.steps is 0; it must be at least 1");
  CHECK(message_of([] { schedule{1.0, 3, 2}.validate(); }) == "kvpop: schedule.warmup is 3; it must be in 0 .. steps");
}

}  // namespace
