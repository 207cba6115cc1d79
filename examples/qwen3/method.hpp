#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "kvpop/cache/budget.hpp"       // budget
#include "kvpop/score/scorer_file.hpp"  // scorer_file

namespace qwen3 {

/// The ways to stay within a budget (docs/method.md section 7), and `full`, which has none.
enum class method { full, streaming, random, key_norm, tova, h2o, snapkv, kvpop_mlp, kvpop, oracle };

/// All of them, in the order of the tables.
std::span<const method> all_methods();

/// Whether a method's priorities come from a scorer file.
constexpr bool is_learned(method m) { return m == method::kvpop_mlp || m == method::kvpop; }

/// The name on the command line: full streaming random keynorm tova h2o snapkv kvpop-mlp kvpop oracle. The oracle evicts by
/// the training target itself: it knows the whole text, so only `eval` has it.
const char* name_of(method m);

/// The method of a name. Throws usage_error listing the names.
method method_of(std::string_view name);

/// What a cache stores.
enum class cache_dtype { f32, bf16, f16 };

const char* name_of(cache_dtype dtype);
cache_dtype cache_dtype_of(std::string_view name);
constexpr std::int64_t bytes_of(cache_dtype dtype) { return dtype == cache_dtype::f32 ? 4 : 2; }

/// The scorers at hand for a model: `scorers/` of its directory, or a file of the user's that stands in for its kind.
struct scorer_set {
  std::optional<kvpop::scorer_file> mlp;
  std::optional<kvpop::scorer_file> mlstm;
  bool mlstm_first = true;  // which one speaks for the methods that have none; the user's, when there is one

  /// The scorer of a method, or nullptr when it has none or none is at hand.
  const kvpop::scorer_file* of(method m) const;

  /// Whose sinks and window hold for methods without a scorer, so that all methods protect the same; may be nullptr.
  const kvpop::scorer_file* any() const;
};

/// Sizes of a model that a scorer must have been made for, and that a budget in bytes depends on.
struct model_shape {
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
};

/// Finds and checks the scorers of `model_directory`; `override_path`, unless empty, replaces the one of its kind.
/// Throws kvpop::error naming the file when one cannot be read or was made for another model.
scorer_set load_scorers(const std::string& model_directory, const std::string& override_path, const model_shape& shape);

/// What the command line says about every method.
struct method_settings {
  std::optional<std::int64_t> sinks;   // unset: the scorer file's, else 4
  std::optional<std::int64_t> window;  // unset: the scorer file's, else 256
  cache_dtype dtype = cache_dtype::f32;
  std::uint64_t seed = 1;  // of the method `random`
};

/// Throws usage_error when sinks or window cannot be those of any method.
void check_settings(const method_settings& settings);

/// Throws usage_error when a value is not in least .. most, calling it `name`.
void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most);

/// The same of a number of KV entries, of which there are fewer than 2^31.
void check_entries(const char* name, std::int64_t value, std::int64_t least);

/// A method with its budget worked out.
struct method_plan {
  method name = method::full;
  std::int64_t entries = 0;  // KV entries a head that it may weigh, all included
  std::int64_t charge = 0;   // of those, what pays for the scorer's memory
  kvpop::budget limits;      // what the cache is made with
};

/// The plan of `m` within `entries` KV entries a head (for `full`: the tokens that will come). All methods weigh the
/// same bytes: docs/method.md sections 1 and 7. Throws usage_error with the arithmetic when the budget is too small, and
/// when the method's scorer is not at hand.
method_plan plan_method(method m, std::int64_t entries, const method_settings& settings, const scorer_set& scorers,
                        const model_shape& shape);

/// `128 entries a head = 4 sinks + 32 window + 89 long-range + 3 for the scorer's memory`
std::string arithmetic(const method_plan& plan);

/// Which of --sinks and --window were given although the method has its own: `tova has its own window: --window has no
/// effect`; empty when none.
std::string ignored_settings(method m, const method_settings& settings);

/// Throws usage_error when a compression is not at least 0 and below 100.
void check_compression(double compression);

/// `--compression C`: how many of `tokens` stay. 75, 88 and 94 mean 1/4, 1/8 and 1/16; others are literal per cent.
/// Rounded, at least 1.
std::int64_t entries_at(double compression, std::int64_t tokens);

}  // namespace qwen3
