// Prints what the library selects; the consumer projects differ in how they find the library and compile this.

#include <cstdio>

#include "selection.hpp"  // selection, attention

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that leaves main fails the test as it should
int main() {
  float sum = 0.0F;
  for (const float x : attention()) {
    sum += x;
  }
  // Attention is a mean of values that lie in [-1, 1.75].
  const bool plausible = sum > -64.0F && sum < 112.0F && sum != 0.0F;
  return std::fputs(selection().c_str(), stdout) >= 0 && plausible ? 0 : 1;
}
