#include <cmath>
#include <cstdio>

#include "results.hpp"  // results

namespace {

double largest_gap(const std::vector<float>& a, const std::vector<float>& b) {
  double gap = a.size() == b.size() && !a.empty() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    gap = std::fmax(gap, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return gap;
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::puts("skipped: this CPU does not run x86-64-v3");
    return 77;
  }
  const results plain = plain_results();
  const results wide = wide_results();
  const double gap = largest_gap(plain.attention, wide.attention);
  if (plain.selection != wide.selection) {
    std::printf("without AVX2\n%s\nwith AVX2\n%s\n", plain.selection.c_str(), wide.selection.c_str());
  }
  std::printf("attention differs by at most %g\n", gap);
  return plain.selection == wide.selection && gap < 1e-5 ? 0 : 1;
}
