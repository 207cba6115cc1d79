#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weight_matrix.hpp"  // weight_type

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
  std::int64_t limit = 0;
  std::int64_t truncate = 0;
  std::int64_t chunk = 128;
  std::string target = "rms";  // of the oracle and of recall
  bool layers = false;         // recall of every layer too
  std::string json;
  std::string plot;
  std::string plot_layers;
};

struct train_options {
  std::string model;
  int threads = 0;
  std::string rope_dtype = "f32";
  std::vector<std::string> data;  // F.jsonl, text files, or -
  std::string scorer = "kvpop";   // or kvpop-mlp
  std::string output;
  std::optional<std::int64_t> budget;  // entries a head that the scorer is to serve; unset with no compression: 88 %
  std::optional<double> compression;   // per cent of a row
  double spread = 2;                   // topk is drawn between topk / spread and topk * spread
  std::int64_t sinks = 4;
  std::int64_t window = 256;
  std::optional<std::int64_t> delay;  // unset: the window
  std::vector<std::int64_t> state = {16, 16};
  std::int64_t hidden = 64;
  bool no_decay = false;
  std::int64_t length = 1024;
  std::int64_t batch = 4;
  std::int64_t steps = 400;
  double rate = 1e-2;
  std::optional<std::int64_t> warmup;  // unset: a tenth of the steps
  bool constant_rate = false;
  std::uint64_t seed = 1;
  std::string loss = "boundary";
  std::string target = "rms";
  std::string lse = "dense";
  std::string aggregate = "max";
  std::int64_t samples = 512;
  double tau = 1;
  bool no_balance = false;
  bool margins = false;
  std::string valid;
  std::int64_t eval_every = 0;
  bool resume = false;
  std::string log;
  std::string plot;
};

struct notebook_options {
  std::int64_t sequences = 0;
  std::int64_t tokens = 1024;
  std::uint64_t seed = 1;
  double records = 0.22, questions = 0.22, kept = 0.35;
  std::int64_t gap = 256;
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
int run_train(const train_options& options);
int run_notebook(const notebook_options& options);

/// --rope-dtype. Throws usage_error listing the names.
weight_type rope_precision_of(std::string_view name);

/// --threads: 0 stands for as many as the machine has.
int threads_of(int asked);

/// Token ids from `5,17,3` or from a file `@FILE`, separated by commas or white space. Throws usage_error naming the
/// entry that is not an id; an empty list is one too.
std::vector<std::int32_t> parse_tokens(const std::string& list);

}  // namespace qwen3
