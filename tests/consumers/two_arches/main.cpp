#include <cstdio>
#include <string>

std::string plain_selection();
std::string wide_selection();

int main() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::puts("skipped: this CPU does not run x86-64-v3");
    return 77;
  }
  if (plain_selection() != wide_selection()) {
    std::printf("without AVX2\n%s\nwith AVX2\n%s\n", plain_selection().c_str(), wide_selection().c_str());
    return 1;
  }
  return 0;
}
