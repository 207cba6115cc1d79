#include "json_place.hpp"

#include <algorithm>
#include <limits>

#include "error.hpp"  // load_error, in_quotes

namespace qwen3 {

namespace {

std::string shown(const nlohmann::json& value) {
  if (value.is_structured()) return value.type_name();
  return value.is_string() ? in_quotes(value.get_ref<const std::string&>()) : value.dump();
}

}  // namespace

void json_place::refuse(const std::string& what) const { throw load_error(where_ + (whole_ ? ": " : " ") + what); }

void json_place::refuse_kind(const char* needed) const { refuse("is " + shown(*value_) + "; it must be " + needed); }

bool json_place::has(const char* name) const { return !member(name).null(); }

json_place json_place::member(const char* name) const {
  object();
  static const nlohmann::json none;
  const auto found = value_->find(name);
  return {found == value_->end() ? none : *found, where_ + (whole_ ? ": " : ".") + name, false};
}

json_place json_place::element(std::size_t index) const {
  return {value_->at(index), where_ + "[" + std::to_string(index) + "]", false};
}

const std::string& json_place::text() const {
  if (!value_->is_string()) refuse_kind("a string");
  return value_->get_ref<const std::string&>();
}

bool json_place::flag() const {
  if (!value_->is_boolean()) refuse_kind("true or false");
  return value_->get<bool>();
}

std::int32_t json_place::id() const {
  if (!value_->is_number_unsigned() || value_->get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
    refuse_kind("a token id, a whole number from 0 to 2147483647");
  return value_->get<std::int32_t>();
}

std::size_t json_place::array_size() const {
  if (!value_->is_array()) refuse_kind("an array");
  return value_->size();
}

const json_place& json_place::object() const {
  if (!value_->is_object()) refuse_kind("an object");
  return *this;
}

void json_place::only(std::initializer_list<std::string_view> names) const {
  for (const auto& entry : object().value().items())
    if (std::find(names.begin(), names.end(), entry.key()) == names.end())
      refuse("has a member " + in_quotes(entry.key()) + ", which is not known here");
}

const std::string& json_place::type() const { return member("type").text(); }

}  // namespace qwen3
