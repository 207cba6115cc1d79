#include <cstdio>
#include <string>
#include <vector>

int this_minor_version();
int other_minor_version();
std::string this_selection();
std::string other_selection();
std::vector<float> this_attention();
std::vector<float> other_attention();
bool this_catches_its_error();
bool other_catches_its_error();

int main() {
  const bool differ = this_minor_version() != other_minor_version() && other_minor_version() == 987;
  const bool agree = this_selection() == other_selection() && !this_selection().empty() &&
                     this_attention() == other_attention() && !this_attention().empty();
  const bool caught = this_catches_its_error() && other_catches_its_error();
  std::printf("versions differ: %d, results agree: %d, errors caught: %d\n", differ, agree, caught);
  return differ && agree && caught ? 0 : 1;
}
