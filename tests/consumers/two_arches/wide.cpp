#include "../selection.hpp"  // selection, attention
#include "results.hpp"       // results

results wide_results() { return {selection(), attention()}; }
