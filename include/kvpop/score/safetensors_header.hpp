#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvpop/core/checked.hpp"       // checked_multiply
#include "kvpop/score/header_text.hpp"  // header_text

/// @file
/// The header of a safetensors file: metadata and where each tensor lies. Strict, because scorer files come from
/// elsewhere: anything that is not exactly the format is an error that names the file and the place.

KVPOP_NAMESPACE_BEGIN

/// One tensor of a safetensors file.
struct safetensors_entry {
  std::string dtype;           ///< as the format spells it: F32, BF16, ..
  std::vector<index_t> shape;  ///< all axes >= 0
  index_t begin = 0;           ///< first byte, counted from the end of the header
  index_t end = 0;             ///< one past the last
};

/// A parsed and validated header: tensors tile the data without holes or overlaps, sizes match shapes and dtypes.
struct safetensors_header {
  std::map<std::string, std::string, std::less<>> metadata;
  std::map<std::string, safetensors_entry, std::less<>> tensors;
  index_t data_bytes = 0;  ///< bytes that follow the header
};

/// Longest header that is read, as in the reference implementation of the format.
inline constexpr index_t safetensors_max_header = 100'000'000;

/// Bytes of one element of a dtype; 0 for a dtype that the format does not know.
[[nodiscard]] inline index_t safetensors_element_bytes(std::string_view dtype) noexcept {
  constexpr std::pair<std::string_view, index_t> known[] = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4},  {"U32", 4},     {"F16", 2},    {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [name, bytes] : known) {
    if (name == dtype) {
      return bytes;
    }
  }
  return 0;
}

namespace safetensors {

/// `[1, 2, 3]`: non-negative integers, at most `limit` of them.
inline std::vector<index_t> parse_integers(header_text& text, std::size_t limit) {
  std::vector<index_t> values;
  text.expect('[');
  if (text.accept(']')) {
    return values;
  }
  do {
    if (values.size() == limit) [[unlikely]] {
      text.fail_here("at most " + std::to_string(limit) + " numbers are allowed here");
    }
    values.push_back(text.integer());
  } while (text.accept(','));
  text.expect(']');
  return values;
}

/// `{"dtype": .., "shape": .., "data_offsets": ..}`, each member once, in any order.
inline safetensors_entry parse_entry(header_text& text) {
  constexpr std::size_t max_rank = 16;
  safetensors_entry entry;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
  text.expect('{');
  do {
    const std::string member = text.string();
    text.expect(':');
    if (member == "dtype" && !std::exchange(has_dtype, true)) {
      entry.dtype = text.string();
    } else if (member == "shape" && !std::exchange(has_shape, true)) {
      entry.shape = parse_integers(text, max_rank);
    } else if (member == "data_offsets" && !std::exchange(has_offsets, true)) {
      const std::vector<index_t> offsets = parse_integers(text, 2);
      if (offsets.size() != 2) [[unlikely]] {
        text.fail_here("data_offsets needs two numbers");
      }
      entry.begin = offsets[0];
      entry.end = offsets[1];
    } else {
      text.fail_here("member " + in_quotes(member) + " of a tensor is unknown or occurs twice");
    }
  } while (text.accept(','));
  text.expect('}');
  if (!has_dtype || !has_shape || !has_offsets) [[unlikely]] {
    text.fail_here("a tensor needs dtype, shape and data_offsets");
  }
  return entry;
}

/// `{"key": "value", ..}`.
inline std::map<std::string, std::string, std::less<>> parse_metadata(header_text& text) {
  std::map<std::string, std::string, std::less<>> metadata;
  text.expect('{');
  if (text.accept('}')) {
    return metadata;
  }
  do {
    std::string key = text.string();
    text.expect(':');
    std::string value = text.string();
    if (!metadata.emplace(key, std::move(value)).second) [[unlikely]] {
      text.fail_here("metadata " + in_quotes(key) + " occurs twice");
    }
  } while (text.accept(','));
  text.expect('}');
  return metadata;
}

/// Checks one tensor's bytes against its dtype and shape.
inline void check_entry(const std::string& file, const std::string& name, const safetensors_entry& entry) {
  const std::string who = file + ": tensor " + in_quotes(name);
  const index_t element = safetensors_element_bytes(entry.dtype);
  if (element == 0) [[unlikely]] {
    fail(who + ": dtype " + in_quotes(entry.dtype) + " is unknown");
  }
  index_t bytes = element;
  for (const index_t extent : entry.shape) {
    bytes = checked_multiply(bytes, extent, who.c_str());
  }
  if (entry.end < entry.begin) [[unlikely]] {
    fail(who + ": data_offsets end at " + std::to_string(entry.end) + ", before they begin at " +
         std::to_string(entry.begin));
  }
  if (entry.end - entry.begin != bytes) [[unlikely]] {
    fail(who + ": data_offsets span " + std::to_string(entry.end - entry.begin) + " bytes; dtype and shape need " +
         std::to_string(bytes));
  }
}

/// Checks that the tensors tile the data; returns its size.
inline index_t check_tiling(const std::string& file, const safetensors_header& header) {
  std::map<index_t, const std::string*> by_offset;  // of tensors that have bytes
  for (const auto& [name, entry] : header.tensors) {
    if (entry.end > entry.begin && !by_offset.emplace(entry.begin, &name).second) [[unlikely]] {
      fail(file + ": tensor " + in_quotes(name) + ": data_offsets overlap another tensor");
    }
  }
  index_t next = 0;
  for (const auto& [begin, name] : by_offset) {
    if (begin != next) [[unlikely]] {
      fail(file + ": tensor " + in_quotes(*name) + ": data_offsets begin at " + std::to_string(begin) +
           (begin < next ? ", overlapping a tensor that ends at " : ", leaving a hole after ") + std::to_string(next));
    }
    next = header.tensors.find(*name)->second.end;
  }
  for (const auto& [name, entry] : header.tensors) {
    if (entry.begin > next) [[unlikely]] {
      fail(file + ": tensor " + in_quotes(name) + ": data_offsets lie beyond the data, which ends at " +
           std::to_string(next));
    }
  }
  return next;
}

}  // namespace safetensors

/// Parses and validates the JSON of a header.
///
/// json: the bytes after the header's length; file: how messages name it. Throws `error`; allocates no more than a small
/// multiple of the text's own length.
[[nodiscard]] inline safetensors_header parse_safetensors_header(std::string_view json, const std::string& file) {
  constexpr std::string_view metadata_name = "__metadata__";
  safetensors_header header;
  header_text text(json, file);
  bool has_metadata = false;
  if (json.empty() || json.front() != '{') [[unlikely]] {
    text.fail_here("a header begins with '{'");
  }
  text.expect('{');
  if (!text.accept('}')) {
    do {
      std::string name = text.string();
      text.expect(':');
      if (name == metadata_name && !std::exchange(has_metadata, true)) {
        header.metadata = safetensors::parse_metadata(text);
        continue;
      }
      safetensors_entry entry = safetensors::parse_entry(text);
      if (!header.tensors.emplace(name, std::move(entry)).second) [[unlikely]] {
        text.fail_here("tensor " + in_quotes(name) + " occurs twice");
      }
    } while (text.accept(','));
    text.expect('}');
  }
  text.expect_end();
  for (const auto& [name, entry] : header.tensors) {
    safetensors::check_entry(file, name, entry);
  }
  header.data_bytes = safetensors::check_tiling(file, header);
  return header;
}

KVPOP_NAMESPACE_END
