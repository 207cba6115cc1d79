#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qwen3 {

/// Reads a JSON object from a file of at most `max_bytes`.
///
/// Stricter than the format: an object that names a member twice, nesting deeper than 64, a NUL byte and a top level
/// that is not an object are refused. Throws load_error naming the file and the byte.
nlohmann::json read_json_file(const std::string& path, std::size_t max_bytes);

/// Reads a JSON object from text, just as strictly. `place` is what messages call it: a path, or `path:line`.
nlohmann::json parse_json_object(std::string_view text, const std::string& place);

/// A value as it stands in its file, cut where it is long: for messages.
std::string shown(const nlohmann::json& value);

/// What a parser said, without the library's own prefix: `parse error at line 1, column 3: ...`.
std::string json_reason(const std::exception& error);

}  // namespace qwen3
