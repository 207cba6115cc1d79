#include "../selection.hpp"  // selection, attention
#include "results.hpp"       // results

results plain_results() { return {selection(), attention()}; }
