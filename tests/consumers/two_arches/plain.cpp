#include "../selection.hpp"  // selection

std::string plain_selection() { return selection(); }
