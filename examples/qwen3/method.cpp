#include "method.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "error.hpp"                // usage_error, in_quotes
#include "kvpop/score/charge.hpp"   // memory_charge
#include "kvpop/score/h2o.hpp"      // h2o_budget
#include "kvpop/score/recency.hpp"  // streaming_budget
#include "kvpop/score/snapkv.hpp"   // snapkv_budget
#include "kvpop/score/tova.hpp"     // tova_budget

namespace qwen3 {

namespace {

constexpr std::array every{method::full, method::streaming, method::random,    method::key_norm, method::tova,
                           method::h2o,  method::snapkv,    method::kvpop_mlp, method::kvpop,    method::oracle};

constexpr std::int64_t default_sinks = 4;
constexpr std::int64_t default_window = 256;

// Places that a method fills by its own rule, before it holds a single long-range token.
struct fixed_places {
  std::int64_t sinks = 0;
  std::int64_t window = 0;
  std::int64_t charge = 0;
  bool long_range = true;  // StreamingLLM has none

  std::int64_t least() const { return sinks + window + charge + (long_range ? 1 : 0); }
};

std::string sum_text(const fixed_places& p) {
  std::string text = std::to_string(p.sinks) + " sinks + " + std::to_string(p.window) + " window";
  if (p.charge > 0) text += " + " + std::to_string(p.charge) + " for the scorer's memory";
  if (p.long_range) text += " + 1 long-range";
  return text + " = " + std::to_string(p.least());
}

fixed_places places_of(method m, std::int64_t entries, std::int64_t sinks, std::int64_t window, std::int64_t charge) {
  switch (m) {
    case method::streaming:
      return {sinks, 1, 0, false};  // sinks and at least the newest
    case method::tova:
      return {0, 2, 0};
    case method::h2o:
      // Half of it; in a budget that is too small, the half of the least that would do.
      return {sinks, std::max<std::int64_t>(entries > 2 * sinks ? entries / 2 : sinks, 1), 0};
    case method::snapkv:
      return {sinks, kvpop::snapkv::observed, 0};
    default:
      return {sinks, window, charge};
  }
}

kvpop::budget limits_of(method m, std::int64_t entries, const fixed_places& p) {
  switch (m) {
    case method::streaming:
      return kvpop::streaming_budget(entries, p.sinks);
    case method::tova:
      return kvpop::tova_budget(entries);
    case method::h2o:
      return kvpop::h2o_budget(entries, p.sinks);
    case method::snapkv:
      return kvpop::snapkv_budget(entries, p.sinks);
    default:
      return kvpop::charged_budget(entries, p.sinks, p.window, p.charge);
  }
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

}  // namespace

std::span<const method> all_methods() { return every; }

const char* name_of(method m) {
  switch (m) {
    case method::full:
      return "full";
    case method::streaming:
      return "streaming";
    case method::random:
      return "random";
    case method::key_norm:
      return "keynorm";
    case method::tova:
      return "tova";
    case method::h2o:
      return "h2o";
    case method::snapkv:
      return "snapkv";
    case method::kvpop_mlp:
      return "kvpop-mlp";
    case method::kvpop:
      return "kvpop";
    case method::oracle:
      return "oracle";
  }
  return "";
}

method method_of(std::string_view name) {
  std::string known;
  for (const method m : every) {
    if (name == name_of(m)) return m;
    known += (known.empty() ? "" : ", ") + std::string(name_of(m));
  }
  throw usage_error("no method is called " + in_quotes(name) + "; there are " + known);
}

const char* name_of(cache_dtype dtype) {
  return dtype == cache_dtype::f32 ? "f32" : dtype == cache_dtype::bf16 ? "bf16" : "f16";
}

cache_dtype cache_dtype_of(std::string_view name) {
  for (const cache_dtype dtype : {cache_dtype::f32, cache_dtype::bf16, cache_dtype::f16}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw usage_error("--cache-dtype is " + in_quotes(name) + "; it must be f32, bf16 or f16");
}

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least || value > most)
    throw usage_error(std::string(name) + " is " + std::to_string(value) + "; it must be in " + std::to_string(least) +
                      " .. " + std::to_string(most));
}

void check_entries(const char* name, std::int64_t value, std::int64_t least) {
  check_range(name, value, least, (std::int64_t{1} << 31) - 1);
}

void check_compression(double compression) {
  if (!(compression >= 0 && compression < 100))
    throw usage_error("--compression is " + std::to_string(compression) + "; it must be at least 0 and below 100");
}

void check_settings(const method_settings& settings) {
  if (settings.sinks) check_entries("--sinks", *settings.sinks, 0);
  if (settings.window) check_entries("--window", *settings.window, 1);
}

const kvpop::scorer_file* scorer_set::of(method m) const {
  const std::optional<kvpop::scorer_file>& file = m == method::kvpop ? mlstm : mlp;
  return is_learned(m) && file ? &*file : nullptr;
}

const kvpop::scorer_file* scorer_set::any() const {
  const auto& first = mlstm_first ? mlstm : mlp;
  const auto& second = mlstm_first ? mlp : mlstm;
  return first ? &*first : second ? &*second : nullptr;
}

scorer_set load_scorers(const std::string& model_directory, const std::string& override_path,
                        const model_shape& shape) {
  scorer_set result;
  const auto load = [&](const std::string& path) {
    kvpop::scorer_file file = kvpop::load_scorer(path);
    file.check_model(shape.layers, shape.kv_heads, shape.head_dim, shape.head_dim);
    const bool mlp = file.description().kind == kvpop::scorer_kind::mlp;
    (mlp ? result.mlp : result.mlstm) = std::move(file);
    return mlp;
  };
  for (const char* name : {"kvpop-mlp", "kvpop"}) {
    const std::string path = model_directory + "/scorers/" + name + ".safetensors";
    if (exists(path)) load(path);
  }
  if (!override_path.empty()) result.mlstm_first = !load(override_path);
  return result;
}

method_plan plan_method(method m, std::int64_t entries, const method_settings& settings, const scorer_set& scorers,
                        const model_shape& shape) {
  if (m == method::full) {
    return {m, entries, 0, {.sinks = 0, .window = std::max<std::int64_t>(entries, 1), .topk = 0}};
  }
  const kvpop::scorer_file* own = scorers.of(m);
  if (is_learned(m) && own == nullptr) {
    throw usage_error(std::string("method ") + name_of(m) + " needs a scorer: the model has no scorers/" + name_of(m) +
                      ".safetensors, and --scorer does not name one of its kind (qwen3 train makes one)");
  }
  const kvpop::scorer_file* file = own != nullptr ? own : scorers.any();
  const std::int64_t sinks = settings.sinks.value_or(file != nullptr ? file->description().sinks : default_sinks);
  const std::int64_t window = settings.window.value_or(file != nullptr ? file->description().window : default_window);
  std::int64_t charge = 0;
  if (own != nullptr) {
    if (own->description().delay > window) {
      throw usage_error("--window is " + std::to_string(window) + "; the scorer of " + name_of(m) + " is read " +
                        std::to_string(own->description().delay) + " tokens later, and must be at most the window");
    }
    charge = kvpop::memory_charge(own->memory_size(), 2 * shape.head_dim * bytes_of(settings.dtype));
  }
  check_settings(settings);
  check_entries("the budget", entries, 1);
  const fixed_places places = places_of(m, entries, sinks, window, charge);
  if (entries < places.least()) {
    throw usage_error(std::string(name_of(m)) + ": a budget of " + std::to_string(entries) +
                      " entries a head is too small; it must be at least " + sum_text(places));
  }
  return {m, entries, charge, limits_of(m, entries, places)};
}

std::string arithmetic(const method_plan& plan) {
  if (plan.name == method::full) return "every entry is kept";
  std::string text = std::to_string(plan.entries) + " entries a head = " + std::to_string(plan.limits.sinks) +
                     " sinks + " + std::to_string(plan.limits.window) + " window + " +
                     std::to_string(plan.limits.topk) + " long-range";
  if (plan.charge > 0) text += " + " + std::to_string(plan.charge) + " for the scorer's memory";
  return text;
}

std::string ignored_settings(method m, const method_settings& settings) {
  const bool all = m == method::full, own_sinks = all || m == method::tova;
  const bool own_window = own_sinks || m == method::streaming || m == method::h2o || m == method::snapkv;
  const bool sinks = own_sinks && settings.sinks.has_value(), window = own_window && settings.window.has_value();
  if (!sinks && !window) return "";
  const char* const what = sinks && window ? "sinks and window" : sinks ? "sinks" : "window";
  return std::string(name_of(m)) + (all ? " keeps everything: " : std::string(" has its own ") + what + ": ") +
         (sinks ? "--sinks" : "") + (sinks && window ? " and " : "") + (window ? "--window" : "") +
         (sinks && window ? " have no effect" : " has no effect");
}

std::int64_t entries_at(double compression, std::int64_t tokens) {
  const double kept = compression == 75   ? 1.0 / 4
                      : compression == 88 ? 1.0 / 8
                      : compression == 94 ? 1.0 / 16
                                          : (100 - compression) / 100;
  return std::max<std::int64_t>(1, std::llround(kept * static_cast<double>(tokens)));
}

}  // namespace qwen3
