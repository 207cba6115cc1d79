#include "json_file.hpp"

#include <set>
#include <string_view>
#include <vector>

#include "error.hpp"        // load_error, in_quotes
#include "mapped_file.hpp"  // mapped_file

namespace qwen3 {

namespace {

constexpr int deepest = 64;

// Follows the parser to see what it would pass over in silence: the last of two members of one name wins.
class strictness {
 public:
  explicit strictness(const std::string& place) : place_(place) {}

  void operator()(int depth, nlohmann::json::parse_event_t event, const nlohmann::json& value) {
    using event_t = nlohmann::json::parse_event_t;
    if (depth >= deepest) throw load_error(place_ + ": is nested deeper than " + std::to_string(deepest) + " levels");
    if (event == event_t::object_start) names_.emplace_back();
    if (event == event_t::object_end) names_.pop_back();
    if (event != event_t::key) return;
    const auto& name = value.get_ref<const std::string&>();
    if (!names_.back().insert(name).second)
      throw load_error(place_ + ": names " + in_quotes(name) + " twice in one object");
  }

 private:
  const std::string& place_;
  std::vector<std::set<std::string>> names_;  // of the objects that are open, outermost first
};

}  // namespace

std::string json_reason(const std::exception& error) {
  const std::string_view what = error.what();
  const auto prefix = what.find("] ");
  return std::string(prefix == std::string_view::npos ? what : what.substr(prefix + 2));
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t longest = 60;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

nlohmann::json parse_json_object(std::string_view text, const std::string& place) {
  if (const auto nul = text.find('\0'); nul != std::string_view::npos)  // the parser takes it for the end
    throw load_error(place + ": holds a NUL byte at byte " + std::to_string(nul));
  strictness strict(place);
  const auto follow = [&strict](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    strict(depth, event, value);
    return true;
  };
  nlohmann::json result;
  try {
    result = nlohmann::json::parse(text, follow);
  } catch (const nlohmann::json::exception& error) {
    throw load_error(place + ": is not valid JSON: " + json_reason(error));
  }
  if (!result.is_object()) throw load_error(place + ": is not a JSON object but " + result.type_name());
  return result;
}

nlohmann::json read_json_file(const std::string& path, std::size_t max_bytes) {
  const mapped_file file = mapped_file::open(path);
  const std::string_view text = file.text();
  if (text.empty()) throw load_error(path + ": is empty; a JSON object is needed");
  if (text.size() > max_bytes)
    throw load_error(path + ": is " + std::to_string(text.size()) + " bytes long; at most " +
                     std::to_string(max_bytes) + " are read");
  return parse_json_object(text, path);
}

}  // namespace qwen3
