#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace qwen3 {

/// Options that several verbs share; unset means the default of the place that uses them.
struct run_options {
  std::string model;  // directory
  int threads = 0;    // 0: as many as the machine has
  std::optional<std::int64_t> sinks;
  std::optional<std::int64_t> window;
  std::string scorer;  // file; empty: the model's own
  std::string cache_dtype = "f32";
  std::string rope_dtype = "f32";
  std::uint64_t seed = 1;
};

/// One method and its budget.
struct method_options {
  std::string method = "full";
  std::optional<std::int64_t> budget;
  std::optional<double> compression;
};

struct logits_options : run_options, method_options {
  std::string tokens;  // 5,17,3 or @FILE
  std::string output;
  std::int64_t chunk = 512;
  std::optional<std::int64_t> prompt;  // tokens that SnapKV takes for its prompt; unset: all
};

struct tokenize_options {
  std::string model;
  bool decode = false;
};

struct generate_options : run_options, method_options {
  std::string prompt;  // - reads stdin
  std::string system;  // message of a chat
  bool chat = false;
  std::int64_t max_tokens = 256;
  double temperature = 0;
  std::int64_t top_k = 0;
  double top_p = 1;
  std::int64_t chunk = 512;
  std::string map;  // page of what each KV head holds at the end
};

struct eval_options : run_options {
  std::string data;
  std::vector<std::string> methods;  // empty: all that the model has scorers for
  std::vector<std::int64_t> budgets;
  std::vector<double> compressions;  // both empty: 75, 88, 94
  std::size_t limit = 0;
  std::int64_t chunk = 128;
  std::string json;
  std::string plot;
};

struct inspect_options : run_options {
  std::optional<std::int64_t> budget;
};

struct agree_options : run_options, method_options {
  std::string tokens;  // one of the two
  std::string text;    // - reads stdin
  std::int64_t chunk = 128;
};

/// The verbs of the command line. Results go to stdout or to the files asked for, messages to stderr. They throw what
/// `run` turns into an exit status; `agree` returns 1 when the runs do not agree.
int run_logits(const logits_options& options);
int run_tokenize(const tokenize_options& options);
int run_generate(const generate_options& options);
int run_eval(const eval_options& options);
int run_inspect(const inspect_options& options);
int run_agree(const agree_options& options);

/// Token ids from `5,17,3` or from a file `@FILE`, separated by commas or white space. Throws usage_error naming the
/// entry that is not an id; an empty list is one too.
std::vector<std::int32_t> parse_tokens(const std::string& list);

}  // namespace qwen3
