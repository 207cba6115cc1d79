#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "method.hpp"  // scorer_set, method_settings
#include "model.hpp"   // model

namespace qwen3 {

/// Shapes, parameters, KV bytes a token and, for a budget, the arithmetic of every method.
std::string inspect_model(const std::string& directory, const model& network, const scorer_set& scorers,
                          const method_settings& settings, std::optional<std::int64_t> budget);

/// Kind, sizes, parameters, decay, memory and its charge of a scorer file.
std::string inspect_scorer(const std::string& path);

}  // namespace qwen3
