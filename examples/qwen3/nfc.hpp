#pragma once

#include <string>
#include <string_view>

namespace qwen3 {

/// Whether Unicode's normal form C of `text`, which must be UTF-8, differs from it; `result` holds the form when it does
/// and is left alone when not. O(n log n), also for a text that is nothing but combining marks.
bool nfc_changes(std::string_view text, std::string& result);

}  // namespace qwen3
