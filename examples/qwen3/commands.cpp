#include "commands.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "agree.hpp"                   // compare_chunkings
#include "console.hpp"                 // print, note, read_stdin
#include "error.hpp"                   // usage_error
#include "eval.hpp"                    // evaluate
#include "eval_output.hpp"             // eval_table, eval_json
#include "generate.hpp"                // generate
#include "held_map.hpp"                // held_map_page
#include "inspect.hpp"                 // inspect_model, inspect_scorer
#include "kvpop/core/thread_pool.hpp"  // thread_pool
#include "logits.hpp"                  // write_logits
#include "mapped_file.hpp"             // mapped_file
#include "output_file.hpp"             // output_file, check_writable
#include "plot.hpp"                    // plot_report, plot_layers

namespace qwen3 {

namespace {

// A share is easily written where per cent are meant.
void check_per_cent(double compression) {
  check_compression(compression);
  if (compression > 0 && compression < 1)
    note("--compression is in per cent: " + std::to_string(compression) + " keeps nearly everything");
}

// The model with what every verb that runs it needs.
struct engine {
  explicit engine(const run_options& o)
      : network(model::open(o.model, rope_precision_of(o.rope_dtype))),
        scorers(load_scorers(o.model, o.scorer, network.shape())),
        settings(settings_of(o)),
        scorer_path(o.scorer),
        pool(threads_of(o.threads)),
        ctx(pool.context()) {}

  // The method and budget of the command line, for a text of `tokens`. Says on stderr what the budget comes to.
  method_plan plan(const method_options& o, std::int64_t tokens) const {
    const method m = method_of(o.method);
    if (m == method::oracle)
      throw usage_error("--method oracle knows the text that is still to come: only eval has it");
    check_scorer_is_used({&m, 1});
    std::int64_t entries = tokens;
    if (m == method::full) {
      if (o.budget || o.compression) note("method full keeps everything: the budget has no effect");
    } else if (o.budget) {
      entries = *o.budget;
    } else if (o.compression) {
      check_per_cent(*o.compression);
      entries = entries_at(*o.compression, tokens);
    } else {
      throw usage_error(std::string("--method ") + name_of(m) + " needs --budget or --compression");
    }
    const method_plan result = plan_method(m, entries, settings, scorers, network.shape());
    if (m != method::full) note(std::string(name_of(m)) + ": " + arithmetic(result));
    note_of_settings({&m, 1});
    return result;
  }

  // What was asked for and changes nothing.
  void note_of_settings(std::span<const method> methods) const {
    for (const method m : methods) {
      const std::string ignored = ignored_settings(m, settings);
      if (!ignored.empty()) note(ignored);
    }
  }

  kv_cache_request request(const method_plan& plan, std::int64_t prompt) const {
    return {.plan = plan, .dtype = settings.dtype, .seed = settings.seed, .prompt = prompt, .replay = nullptr};
  }

  static method_settings settings_of(const run_options& o) {
    const method_settings settings{o.sinks, o.window, cache_dtype_of(o.cache_dtype), o.seed};
    check_settings(settings);
    return settings;
  }

  // A scorer file that was named and that nothing would use is a mistake.
  void check_scorer_is_used(std::span<const method> methods) const {
    const bool learned = std::any_of(methods.begin(), methods.end(), is_learned);
    const method kind = scorers.mlstm_first ? method::kvpop : method::kvpop_mlp;
    if (scorer_path.empty() || !learned || std::find(methods.begin(), methods.end(), kind) != methods.end()) return;
    throw usage_error("--scorer " + scorer_path + " is a scorer of method " + name_of(kind) +
                      ", which is not asked for");
  }

  model network;
  scorer_set scorers;
  method_settings settings;
  std::string scorer_path;  // --scorer
  kvpop::thread_pool pool;
  kvpop::host_context ctx;
};

std::int64_t count(const std::vector<std::int32_t>& tokens) { return static_cast<std::int64_t>(tokens.size()); }

void write_file(const std::string& path, const std::string& text) {
  output_file file(path);
  file.write(text);
  file.commit();
}

// What every KV head of a cache holds of a text: its prompt and what was made of it.
held_map map_of(const kv_cache& cache, const engine& e, const method_plan& plan, const tokenizer& words,
                std::vector<std::int32_t> text, std::int64_t prompt) {
  text.resize(std::min(text.size(), static_cast<std::size_t>(cache.seen())));  // the last token was never appended
  held_map map;
  map.title = std::string(name_of(plan.name)) + ": " + arithmetic(plan);
  for (const std::int32_t token : text) map.tokens.emplace_back(words.bytes_of(token));
  map.prompt = prompt;
  const model_shape shape = e.network.shape();
  map.heads.resize(static_cast<std::size_t>(shape.layers));
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    for (std::int64_t h = 0; h < shape.kv_heads; ++h)
      map.heads[static_cast<std::size_t>(layer)].push_back(cache.held_positions(layer, h));
  }
  return map;
}

template <class T>
void check_distinct(const char* name, std::vector<T> values) {
  std::sort(values.begin(), values.end());
  const auto twice = std::adjacent_find(values.begin(), values.end());
  if (twice == values.end()) return;
  std::ostringstream message;
  message << name << " names " << *twice << " twice";
  throw usage_error(message.str());
}

std::vector<budget_request> budgets_of(const eval_options& o) {
  std::vector<budget_request> result;
  for (const std::int64_t entries : o.budgets) {
    check_entries("--budgets", entries, 1);
    result.push_back({static_cast<double>(entries), false});
  }
  for (const double c : o.compressions) {
    check_per_cent(c);
    result.push_back({c, true});
  }
  check_distinct("--budgets", o.budgets);
  check_distinct("--compression", o.compressions);
  return result.empty() ? std::vector<budget_request>{{75, true}, {88, true}, {94, true}} : result;
}

// All that was asked for is tried; then the first that failed is said.
void write_results(const eval_options& o, const eval_report& report) {
  std::exception_ptr failed;
  const auto attempt = [&failed](auto&& act) {
    try {
      act();
    } catch (const load_error&) {
      if (!failed) failed = std::current_exception();
    }
  };
  attempt([&] { print(eval_table(report) + (o.layers ? recall_table(report) : "")); });
  if (!o.json.empty()) attempt([&] { write_file(o.json, eval_json(report)); });
  if (!o.plot.empty()) attempt([&] { plot_report(report, o.plot); });
  if (!o.plot_layers.empty()) attempt([&] { plot_layers(report, o.plot_layers); });
  if (failed) std::rethrow_exception(failed);
}

// Token ids separated by commas or white space; messages call the list `name`.
std::vector<std::int32_t> parse_ids(std::string_view text, const std::string& name) {
  constexpr std::string_view spaces = " \t\r\n";
  std::vector<std::int32_t> ids;
  bool comma = true;  // nothing stands between the last comma, or the beginning, and here
  for (std::size_t at = text.find_first_not_of(spaces); at < text.size(); at = text.find_first_not_of(spaces, at)) {
    if (text[at] == ',') {
      if (comma) throw usage_error(name + ": entry " + std::to_string(ids.size()) + " is empty");
      comma = true;
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(", \t\r\n", at), text.size());
    const char* const last = text.data() + end;
    std::int32_t id = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, last, id);
    if (error != std::errc{} || stop != last || id < 0)
      throw usage_error(name + ": " + in_quotes(text.substr(at, end - at)) + " is not a token id");
    ids.push_back(id);
    comma = false;
    at = end;
  }
  if (comma && !ids.empty()) throw usage_error(name + ": entry " + std::to_string(ids.size()) + " is empty");
  return ids;
}

std::vector<std::int32_t> encode_text(const std::string& model, const std::string& text, std::int64_t vocabulary) {
  if (text.empty()) throw usage_error("the text is empty");
  std::vector<std::int32_t> tokens = tokenizer::load(model).encode(text).ids;
  check_tokens(tokens, vocabulary);
  return tokens;
}

}  // namespace

weight_type rope_precision_of(std::string_view name) {
  if (name == "f32") return weight_type::f32;
  if (name == "bf16") return weight_type::bf16;
  if (name == "f16") return weight_type::f16;
  throw usage_error("--rope-dtype is " + in_quotes(name) + "; it must be f32, bf16 or f16");
}

int threads_of(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::vector<std::int32_t> parse_tokens(const std::string& list) {
  std::vector<std::int32_t> tokens = list.starts_with('@')
                                         ? parse_ids(mapped_file::open(list.substr(1)).text(), list.substr(1))
                                         : parse_ids(list, "--tokens");
  if (tokens.empty()) throw usage_error("--tokens holds no token");
  return tokens;
}

int run_logits(const logits_options& o) {
  check_writable(o.output);
  const std::vector<std::int32_t> tokens = parse_tokens(o.tokens);
  const engine e(o);
  check_tokens(tokens, e.network.config().vocabulary);
  const std::int64_t prompt = o.prompt.value_or(count(tokens));
  if (prompt < 1 || prompt > count(tokens))
    throw usage_error("--prompt-tokens is " + std::to_string(prompt) + "; there are " + std::to_string(count(tokens)) +
                      " tokens");
  const method_plan plan = e.plan(o, count(tokens));
  warn_of_positions(e.network.config(), count(tokens));
  const auto cache = make_kv_cache(e.network.config(), e.scorers, e.request(plan, prompt));
  write_logits(e.ctx, e.network, tokens, *cache, o.chunk, prompt, plan.name == method::full, o.output);
  return 0;
}

int run_tokenize(const tokenize_options& o) {
  const tokenizer words = tokenizer::load(o.model);
  const std::string input = read_stdin();
  if (o.decode) {
    print(words.decode(parse_ids(input, "stdin")));
    return 0;
  }
  std::string text;
  for (const std::int32_t id : words.encode(input).ids) {
    if (!text.empty()) text += ' ';
    text += std::to_string(id);
  }
  text += '\n';
  print(text);
  return 0;
}

int run_generate(const generate_options& o) {
  check_writable(o.map);
  const std::string given = o.prompt == "-" ? read_stdin() : o.prompt;
  if (given.empty()) throw usage_error("the prompt is empty");
  const tokenizer words = tokenizer::load(o.model);
  const engine e(o);
  const model_config& config = e.network.config();
  const std::vector<std::int32_t> prompt = words.encode(o.chat ? words.chat_prompt(given, o.system) : given).ids;
  if (prompt.empty()) throw usage_error("the prompt has no token");
  check_tokens(prompt, config.vocabulary);
  const method_plan plan = e.plan(o, count(prompt) + o.max_tokens);
  const auto cache = make_kv_cache(config, e.scorers, e.request(plan, count(prompt)));

  std::vector<std::int32_t> stop(words.stop_ids().begin(), words.stop_ids().end());
  for (const std::int64_t id : config.eos_tokens) stop.push_back(static_cast<std::int32_t>(id));
  sampler sample({.temperature = o.temperature, .top_k = o.top_k, .top_p = o.top_p, .seed = o.seed});
  const generation made = generate(e.ctx, e.network, words, *cache, prompt, stop, sample,
                                   {.max_tokens = o.max_tokens, .chunk = o.chunk}, print);
  print("\n");
  std::array<char, 256> summary{};
  std::snprintf(summary.data(), summary.size(),
                "%lld tokens of prompt in %.2f s, %lld generated at %.1f a second; %lld KV bytes held",
                static_cast<long long>(count(prompt)), made.prompt_seconds, static_cast<long long>(count(made.tokens)),
                made.steps > 0 ? static_cast<double>(made.steps) / made.decode_seconds : 0.0,
                static_cast<long long>(cache->held_bytes()));
  note(summary.data());
  if (!o.map.empty()) {
    std::vector<std::int32_t> text = prompt;
    text.insert(text.end(), made.tokens.begin(), made.tokens.end());
    write_file(o.map, held_map_page(map_of(*cache, e, plan, words, std::move(text), count(prompt))));
  }
  return 0;
}

int run_eval(const eval_options& o) {
  for (const std::string* path : {&o.json, &o.plot, &o.plot_layers}) check_writable(*path);
  eval_request request;
  request.chunk = o.chunk;
  request.target = target_of(o.target);
  request.budgets = budgets_of(o);
  for (const std::string& name : o.methods) request.methods.push_back(method_of(name));
  check_distinct("--methods", o.methods);
  if (request.methods == std::vector{method::full}) {
    for (const auto& [name, path] : {std::pair("--plot", &o.plot), std::pair("--plot-layers", &o.plot_layers)})
      if (!path->empty())
        throw usage_error(std::string(name) +
                          " draws what methods lose, and --methods names full alone: " + "there is nothing to draw");
  }
  const engine e(o);
  if (o.methods.empty()) {
    for (const method m : all_methods()) {
      if (!is_learned(m) || e.scorers.of(m) != nullptr) request.methods.push_back(m);
    }
  }
  e.check_scorer_is_used(request.methods);
  const auto ignores = [&](method m) { return !ignored_settings(m, e.settings).empty(); };
  if (std::all_of(request.methods.begin(), request.methods.end(), ignores)) e.note_of_settings(request.methods);
  const std::vector<eval_line> lines = read_eval_data(
      o.data, tokenizer::load(o.model), {static_cast<std::size_t>(o.limit), static_cast<std::size_t>(o.truncate)});
  std::int64_t longest = 0;
  for (const eval_line& line : lines) longest = std::max(longest, count(line.tokens));
  warn_of_positions(e.network.config(), longest);
  eval_report report = evaluate(e.ctx, e.network, e.scorers, e.settings, lines, request);
  report.model = o.model;
  report.data = o.data;
  write_results(o, report);
  return 0;
}

int run_inspect(const inspect_options& o) {
  if (o.model.empty() && o.scorer.empty()) throw usage_error("inspect needs --model DIR or --scorer FILE");
  if (o.model.empty()) {
    print(inspect_scorer(o.scorer));
    return 0;
  }
  if (o.budget) check_entries("--budget", *o.budget, 1);
  const engine e(o);
  print(inspect_model(o.model, e.network, e.scorers, e.settings, o.budget));
  if (!o.scorer.empty()) print(inspect_scorer(o.scorer));
  return 0;
}

int run_agree(const agree_options& o) {
  if (o.tokens.empty() == o.text.empty()) throw usage_error("agree needs --tokens or --text");
  const engine e(o);
  const std::int64_t vocabulary = e.network.config().vocabulary;
  const std::vector<std::int32_t> tokens = o.tokens.empty()
                                               ? encode_text(o.model, o.text == "-" ? read_stdin() : o.text, vocabulary)
                                               : parse_tokens(o.tokens);
  check_tokens(tokens, vocabulary);
  const std::int64_t prompt = (count(tokens) + 1) / 2;  // SnapKV's
  const method_plan plan = e.plan(o, count(tokens));
  const agreement_report report =
      compare_chunkings(e.ctx, e.network, e.scorers, e.request(plan, prompt), tokens, o.chunk);
  print(agreement_text(report));
  return holds(report) ? 0 : 1;
}

}  // namespace qwen3
