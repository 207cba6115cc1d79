#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qwen3 {

/// A value inside a JSON file, with where it is, so that what is refused is refused by name. Views the value.
class json_place {
 public:
  /// The whole of the file at `path`.
  json_place(const nlohmann::json& value, std::string path) : value_(&value), where_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  bool null() const { return value_->is_null(); }

  /// Throws load_error: where this is, then `what`.
  [[noreturn]] void refuse(const std::string& what) const;

  /// Whether this object has a member that is not null.
  bool has(const char* name) const;
  /// The member; a member that is missing is null.
  json_place member(const char* name) const;
  json_place element(std::size_t index) const;

  /// This value as what it must be, or load_error.
  const std::string& text() const;
  bool flag() const;
  std::int32_t id() const;  ///< a token id: an integer from 0 to 2^31 - 1
  std::size_t array_size() const;
  const json_place& object() const;

  /// Refuses members of this object that are not listed: they might change what the file means.
  void only(std::initializer_list<std::string_view> names) const;
  /// The member `type` of this object.
  const std::string& type() const;

 private:
  json_place(const nlohmann::json& value, std::string where, bool whole)
      : value_(&value), where_(std::move(where)), whole_(whole) {}
  [[noreturn]] void refuse_kind(const char* needed) const;

  const nlohmann::json* value_;
  std::string where_;  // path, or path: member.member[index]
  bool whole_ = true;
};

}  // namespace qwen3
