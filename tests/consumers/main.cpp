// Prints what the library selects; the consumer projects differ in how they find the library and compile this.

#include <cstdio>

#include "selection.hpp"  // selection

int main() { return std::fputs(selection().c_str(), stdout) < 0 ? 1 : 0; }
