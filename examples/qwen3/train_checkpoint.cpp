#include "train_checkpoint.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "error.hpp"        // load_error, in_quotes
#include "safetensors.hpp"  // safetensors_writer, safetensors_file

namespace qwen3 {

namespace {

// The arrays of a state, const or not, by the names they have in the file.
template <class State, class F>
void for_arrays(State& s, const F& f) {
  f("parameters", s.scorer.values());
  f("scales", s.scorer.scales());
  f("first", s.first);
  f("second", s.second);
}

// The first word in which two identities differ, as `window=32`.
std::string difference(const std::string& a, const std::string& b) {
  std::size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const std::size_t begin = a.rfind(' ', i) == std::string::npos ? 0 : a.rfind(' ', i) + 1;
  const auto word = [&](const std::string& s) {
    return begin < s.size() ? s.substr(begin, s.find(' ', begin) - begin) : std::string();
  };
  return in_quotes(word(a)) + " there, " + in_quotes(word(b)) + " now";
}

}  // namespace

void save_checkpoint(const std::string& path, const train_state& state, const std::string& identity) {
  std::vector<tensor_shape> shapes;
  for_arrays(state, [&](const char* name, const std::vector<float>& values) {
    shapes.push_back({name, "F32", {static_cast<std::int64_t>(values.size())}});
  });
  safetensors_writer file(
      path, shapes, {{"format", "kvpop.checkpoint"}, {"identity", identity}, {"step", std::to_string(state.step)}});
  for_arrays(state,
             [&](const char*, const std::vector<float>& values) { file.append(std::span<const float>(values)); });
  file.finish();
}

void load_checkpoint(const std::string& path, train_state& state, const std::string& identity) {
  const safetensors_file file = safetensors_file::open(path);
  const auto entry = [&](const char* key) {
    const auto found = file.metadata().find(key);
    if (found == file.metadata().end())
      throw load_error(path + ": not a checkpoint: metadata \"" + key + "\" is missing");
    return found->second;
  };
  if (entry("format") != "kvpop.checkpoint") throw load_error(path + ": not a checkpoint");
  if (const std::string there = entry("identity"); there != identity)
    throw load_error(path + ": the checkpoint is of another training: " + difference(there, identity));
  const std::string step = entry("step");
  train_state loaded = state;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), loaded.step);
  if (error != std::errc{} || end != step.data() + step.size() || loaded.step < 0)
    throw load_error(path + ": step is " + in_quotes(step));
  for_arrays(loaded, [&](const char* name, std::vector<float>& values) {
    const std::span<const float> there = file.at(name).values<float>();
    if (there.size() != values.size())
      throw load_error(path + ": " + name + " has " + std::to_string(there.size()) + " numbers; it must have " +
                       std::to_string(values.size()));
    if (!std::all_of(there.begin(), there.end(), [](float x) { return std::isfinite(x); }))
      throw load_error(path + ": " + name + " holds a number that is not finite");
    std::copy(there.begin(), there.end(), values.begin());
  });
  state = std::move(loaded);
}

}  // namespace qwen3
