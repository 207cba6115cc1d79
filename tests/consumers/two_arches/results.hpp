#pragma once

#include <string>
#include <vector>

/// What one translation unit computed: plain.cpp and wide.cpp define one function each.
struct results {
  std::string selection;
  std::vector<float> attention;
};

results plain_results();
results wide_results();
