#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainable_scorer.hpp"  // trainable_scorer

namespace qwen3 {

/// All that a training needs to go on as if it had never stopped. Random numbers follow from the step.
struct train_state {
  trainable_scorer scorer;
  std::vector<float> first, second;  // AdamW's moments, [heads, block + 1]
  std::int64_t step = 0;             // steps done

  explicit train_state(trainable_scorer start)
      : scorer(std::move(start)), first(scorer.values().size(), 0.0F), second(scorer.values().size(), 0.0F) {}
};

/// Writes a checkpoint whole or not at all. `identity` says what is being trained, on what and how.
void save_checkpoint(const std::string& path, const train_state& state, const std::string& identity);

/// Reads a checkpoint into a state of the same plan. Throws load_error when the file is none, is of another training (naming
/// what differs) or holds numbers that are not finite; `state` is as it was then.
void load_checkpoint(const std::string& path, train_state& state, const std::string& identity);

}  // namespace qwen3
