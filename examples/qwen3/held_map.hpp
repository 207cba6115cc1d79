#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace qwen3 {

/// What every KV head still holds of a text, ready to be drawn.
struct held_map {
  std::string title;
  std::vector<std::string> tokens;                            // the text, token by token
  std::int64_t prompt = 0;                                    // how many of them are the prompt's
  std::vector<std::vector<std::vector<std::int64_t>>> heads;  // [layers][kv_heads] positions held
};

/// A page that a browser opens: the text, each token the darker the more heads hold it, and below a row for each head
/// with a mark where it holds a token. Self-contained: no script, nothing loaded.
std::string held_map_page(const held_map& map);

}  // namespace qwen3
