#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <cstdio>

#include "support/skip.hpp"  // skip

namespace {

bool skipped = false;
constexpr int ctest_skip_code = 77;  // SKIP_RETURN_CODE in tests/CMakeLists.txt

}  // namespace

void kvpop_test::skip(const char* reason) {
  skipped = true;
  std::printf("skipped: %s\n", reason);
}

int main(int argc, char** argv) {
  const int status = doctest::Context(argc, argv).run();
  return status == 0 && skipped ? ctest_skip_code : status;
}
