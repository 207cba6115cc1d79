#include "../selection.hpp"  // selection

std::string wide_selection() { return selection(); }
