#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config.hpp"              // model_config
#include "kvpop/core/context.hpp"  // host_context
#include "weight_matrix.hpp"       // weight_type

namespace qwen3 {

/// Rotary position embedding as Hugging Face lays it out: dimension i of a head turns with dimension i + head_dim / 2.

/// Radians a position for each pair, [head_dim / 2]: theta^(-2 i / head_dim), scaled where the config says so
/// (transformers' `llama3`). Computed in double, rounded to f32 and then to `precision`: f32 is what transformers'
/// from_pretrained and every serving engine use, whatever the weights' type; a model that was cast whole
/// (`model.to(torch.bfloat16)`) has had its frequencies rounded with its weights, and only that gives its numbers.
std::vector<float> rope_frequencies(const model_config& config, weight_type precision = weight_type::f32);

/// Cosines and sines of some positions, each [positions, head_dim / 2], shared by all layers and heads. The angle is the f32 product of position and frequency, as in transformers.
void rope_angles(std::span<const float> frequencies, std::span<const std::int64_t> positions, float* cosines,
                 float* sines) noexcept;

/// Turns x [tokens, heads, head_dim] in place; cosines, sines [tokens, head_dim / 2].
void rotate(const kvpop::host_context& ctx, float* x, std::int64_t tokens, std::int64_t heads, std::int64_t head_dim,
            const float* cosines, const float* sines);

}  // namespace qwen3
