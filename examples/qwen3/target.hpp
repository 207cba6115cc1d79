#pragma once

#include <string>
#include <string_view>

#include "kvpop/train/future_attention.hpp"  // group_aggregate

namespace qwen3 {

/// What a scorer is trained on, and what drives the oracle: how the attention that a token receives in future becomes one
/// number (docs/method.md section 3).
struct target_settings {
  enum class reduction { power, max, sum };

  reduction over_queries = reduction::power;
  double alpha = 2;  // of power: 1 is the paper's mean, 2 the root mean square
  kvpop::group_aggregate over_group = kvpop::group_aggregate::max;
};

/// rms, mean, max, sum or power:A. Throws usage_error naming what is wrong with it.
target_settings target_of(std::string_view name);

/// The name that target_of understands.
std::string name_of(const target_settings& target);

}  // namespace qwen3
