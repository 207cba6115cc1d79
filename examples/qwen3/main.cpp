#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>
#include <sstream>
#include <string>

#include "blas_kernel.hpp"  // restart_with_better_blas_kernel
#include "commands.hpp"     // options and verbs
#include "console.hpp"      // print
#include "error.hpp"        // usage_error, in_quotes

namespace qwen3 {

namespace {

constexpr int failure = 1;
constexpr int usage_failure = 2;

const char* const method_help = "full streaming random keynorm tova h2o snapkv kvpop-mlp kvpop";
const char* const target_help = "rms, mean, max, sum or power:A: attention over later queries as one number";

void add_model(CLI::App& verb, std::string& model, bool required = true) {
  verb.add_option("--model", model, "Hugging Face directory")->required(required)->type_name("DIR");
}

void add_scorer_and_dtype(CLI::App& verb, run_options& o) {
  verb.add_option("--scorer", o.scorer, "scorer file, in place of the model's own")->type_name("FILE");
  verb.add_option("--sinks", o.sinks, "first tokens kept for good; default: the scorer's, else 4");
  verb.add_option("--window", o.window, "newest tokens protected; default: the scorer's, else 256");
  verb.add_option("--cache-dtype", o.cache_dtype, "f32, bf16 or f16");
}

void add_threads(CLI::App& verb, int& threads) {
  verb.add_option("--threads", threads, "default: as many as the machine has")
      ->check(CLI::Range(1, 1024))
      ->default_str("all");
}

void add_run(CLI::App& verb, run_options& o) {
  add_model(verb, o.model);
  add_scorer_and_dtype(verb, o);
  add_threads(verb, o.threads);
  verb.add_option("--seed", o.seed, "of all that is random")->check(CLI::NonNegativeNumber);
  verb.add_option("--rope-dtype", o.rope_dtype, "rounding of the RoPE frequencies, as of a model that was cast whole");
}

void add_method(CLI::App& verb, method_options& o) {
  verb.add_option("--method", o.method, method_help);
  auto* budget = verb.add_option("--budget", o.budget, "KV entries a head, the scorer's memory included");
  verb.add_option("--compression", o.compression,
                  "per cent of prompt and --max-tokens, or of the tokens, that go; 75, 88, 94 mean 1/4, 1/8, 1/16 stay")
      ->excludes(budget);
}

void add_chunk(CLI::App& verb, std::int64_t& chunk) {
  verb.add_option("--chunk", chunk, "tokens taken at once")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
}

void add_logits(CLI::App& app, logits_options& o) {
  CLI::App& verb = *app.add_subcommand("logits", "write the logits of token ids as safetensors");
  add_run(verb, o);
  add_method(verb, o);
  verb.add_option("--tokens", o.tokens, "5,17,3 or @FILE")->required();
  verb.add_option("--output", o.output, "logits [S, vocab], with method full also keys.L and values.L")
      ->required()
      ->type_name("FILE");
  add_chunk(verb, o.chunk);
  verb.add_option("--prompt-tokens", o.prompt, "how many of the tokens are SnapKV's prompt; default: all");
}

void add_tokenize(CLI::App& app, tokenize_options& o) {
  CLI::App& verb = *app.add_subcommand("tokenize", "text on stdin to ids on stdout");
  add_model(verb, o.model);
  verb.add_flag("--decode", o.decode, "ids on stdin to text on stdout");
}

void add_generate(CLI::App& app, generate_options& o) {
  CLI::App& verb = *app.add_subcommand("generate", "continue a prompt");
  add_run(verb, o);
  add_method(verb, o);
  verb.add_option("--prompt", o.prompt, "text, or - for stdin")->required()->type_name("TEXT|-");
  auto* chat = verb.add_flag("--chat", o.chat, "the prompt is a message to a chat model");
  verb.add_option("--system", o.system, "system message of a chat; default: the model's own")->needs(chat);
  verb.add_option("--max-tokens", o.max_tokens, "tokens to generate at most")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  verb.add_option("--temperature", o.temperature, "0 takes the first choice always")->check(CLI::Range(0.0, 1e6));
  verb.add_option("--top-k", o.top_k, "sample among the k likeliest; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
  verb.add_option("--top-p", o.top_p, "sample among the likeliest that make up this much")->check(CLI::Range(0.0, 1.0));
  add_chunk(verb, o.chunk);
  verb.add_option("--map", o.map, "page of which tokens each KV head still holds at the end")->type_name("OUT.html");
}

void add_eval(CLI::App& app, eval_options& o) {
  CLI::App& verb = *app.add_subcommand("eval", "compare methods on lines of text with answers");
  add_run(verb, o);
  verb.add_option("--data", o.data, "one {\"text\", \"answers\"} a line")->required()->type_name("F.jsonl");
  verb.add_option("--methods", o.methods, std::string("of ") + method_help + " oracle; default: all there are")
      ->delimiter(',');
  auto* budgets = verb.add_option("--budgets", o.budgets, "KV entries a head, as 256,128,64")->delimiter(',');
  verb.add_option("--compression", o.compressions, "per cent of a line's tokens that go; default 75,88,94")
      ->delimiter(',')
      ->excludes(budgets);
  verb.add_option("--limit", o.limit, "only the first lines; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  verb.add_option("--truncate", o.truncate, "only the first tokens of a line, and the answers in them; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  add_chunk(verb, o.chunk);
  verb.add_option("--target", o.target, std::string("of the oracle and of recall: ") + target_help);
  verb.add_flag("--layers", o.layers, "print the recall of every layer too");
  verb.add_option("--json", o.json, "write the results there too")->type_name("OUT");
  verb.add_option("--plot", o.plot, "draw the results, with gnuplot")->type_name("OUT.svg");
  verb.add_option("--plot-layers", o.plot_layers, "draw the recall of every layer")->type_name("OUT.svg");
}

void add_inspect(CLI::App& app, inspect_options& o) {
  CLI::App& verb = *app.add_subcommand("inspect", "what a model or a scorer file is");
  add_model(verb, o.model, false);
  add_scorer_and_dtype(verb, o);
  verb.add_option("--budget", o.budget, "show how every method would spend this many entries a head");
}

void add_agree(CLI::App& app, agree_options& o) {
  CLI::App& verb = *app.add_subcommand("agree", "run a text in chunks and token by token, and compare");
  add_run(verb, o);
  add_method(verb, o);
  auto* tokens = verb.add_option("--tokens", o.tokens, "5,17,3 or @FILE");
  verb.add_option("--text", o.text, "text, or - for stdin")->excludes(tokens);
  add_chunk(verb, o.chunk);
}

void add_train(CLI::App& app, train_options& o) {
  CLI::App& verb = *app.add_subcommand("train", "train a scorer for a model, whose weights stay as they are");
  add_model(verb, o.model);
  verb.add_option("--data", o.data, "F.jsonl ({\"text\"} a line), text files, or - for stdin")->required();
  verb.add_option("--scorer", o.scorer, "kvpop or kvpop-mlp");
  verb.add_option("--output", o.output, "scorer file; the checkpoint is beside it")->required()->type_name("FILE");
  auto* budget = verb.add_option("--budget", o.budget, "KV entries a head that it is for");
  verb.add_option("--compression", o.compression, "per cent of a row that go; default 88")->excludes(budget);
  verb.add_option("--spread", o.spread, "long-range places are drawn for each document from topk / F to topk * F");
  verb.add_option("--sinks", o.sinks, "first tokens kept for good");
  verb.add_option("--window", o.window, "newest tokens protected");
  verb.add_option("--delay", o.delay, "tokens after its own that a score is read; default: the window");
  verb.add_option("--state", o.state, "dk,dv: the memory of kvpop")->delimiter(',');
  verb.add_option("--hidden", o.hidden, "hidden units of kvpop-mlp");
  verb.add_flag("--no-decay", o.no_decay, "gamma = 1 instead of a learned one a head");
  verb.add_option("--seq", o.length, "tokens of a row; documents are packed into rows");
  verb.add_option("--batch", o.batch, "rows a step")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  verb.add_option("--steps", o.steps, "steps")->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  verb.add_option("--lr", o.rate, "peak learning rate")->check(CLI::PositiveNumber);
  verb.add_option("--warmup", o.warmup, "steps of warm-up; default: a tenth");
  verb.add_flag("--constant", o.constant_rate, "constant learning rate after warm-up instead of a cosine");
  verb.add_option("--seed", o.seed, "of all that is random")->check(CLI::NonNegativeNumber);
  add_threads(verb, o.threads);
  verb.add_option("--loss", o.loss, "boundary, regression or pairs");
  verb.add_option("--target", o.target, target_help);
  verb.add_option("--lse", o.lse, "dense, or student: targets by the log-sum-exp of what the scorer would hold");
  verb.add_option("--aggregate", o.aggregate, "max or mean over the query heads of a group");
  verb.add_option("--samples", o.samples, "comparisons a head and document")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  verb.add_option("--tau", o.tau, "temperature of the boundary loss")->check(CLI::PositiveNumber);
  verb.add_flag("--no-balance", o.no_balance, "do not give kept and dropped tokens half of the weight each");
  verb.add_flag("--margins", o.margins, "weigh comparisons by the teacher's margin");
  verb.add_option("--valid", o.valid, "held-out text")->type_name("F.jsonl");
  verb.add_option("--eval-every", o.eval_every, "steps between looks at the held-out text; default: a tenth");
  verb.add_flag("--resume", o.resume, "go on from the checkpoint");
  verb.add_option("--log", o.log, "a JSON object a step")->type_name("F.jsonl");
  verb.add_option("--plot", o.plot, "draw the training, with gnuplot")->type_name("F.svg");
  verb.add_option("--rope-dtype", o.rope_dtype, "rounding of the RoPE frequencies, as of a model that was cast whole");
}

void add_notebook(CLI::App& app, notebook_options& o) {
  CLI::App& verb = *app.add_subcommand("notebook", "make data for the notebook task, a JSON object a line");
  verb.add_option("--sequences", o.sequences, "lines")
      ->required()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  verb.add_option("--tokens", o.tokens, "tokens a line, of the notebook's tokenizer")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  verb.add_option("--seed", o.seed, "of all that is random")->check(CLI::NonNegativeNumber);
  verb.add_option("--records", o.records, "share of lines that note a record")->check(CLI::Range(0.0, 1.0));
  verb.add_option("--questions", o.questions, "share of lines that ask")->check(CLI::Range(0.0, 1.0));
  verb.add_option("--kept", o.kept, "share of records that are confirmed")->check(CLI::Range(0.0, 1.0));
  verb.add_option("--gap", o.gap, "tokens since a record was last mentioned, at least, when it is asked for");
}

int parse_and_run(int argc, const char* const* argv) {
  CLI::App app("A transformer that runs within a fixed KV budget", "qwen3");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  logits_options logits;
  tokenize_options tokenize;
  generate_options generate;
  eval_options eval;
  inspect_options inspect;
  agree_options agree;
  train_options train;
  notebook_options notebook;
  add_logits(app, logits);
  add_tokenize(app, tokenize);
  add_generate(app, generate);
  add_eval(app, eval);
  add_inspect(app, inspect);
  add_agree(app, agree);
  add_train(app, train);
  add_notebook(app, notebook);
  const auto called = [&](const CLI::App* verb) { return verb->check_name(argv[1]); };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(called).empty())  // CLI11 would not name it
    throw usage_error("no verb is called " + in_quotes(argv[1]) + "; qwen3 --help lists them");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream help, message;
    const int status = app.exit(error, help, message);  // --help is an error too, with status 0
    print(help.str());
    std::fputs(message.str().c_str(), stderr);
    return status == 0 ? 0 : usage_failure;
  }
  if (app.got_subcommand("logits")) return run_logits(logits);
  if (app.got_subcommand("tokenize")) return run_tokenize(tokenize);
  if (app.got_subcommand("generate")) return run_generate(generate);
  if (app.got_subcommand("eval")) return run_eval(eval);
  if (app.got_subcommand("inspect")) return run_inspect(inspect);
  if (app.got_subcommand("train")) return run_train(train);
  if (app.got_subcommand("notebook")) return run_notebook(notebook);
  return run_agree(agree);
}

// The exit status: 0, 1 for a failure, 2 for a usage error.
int run(int argc, const char* const* argv) {
  const auto report = [](const char* what, int status) {
    std::fflush(stdout);
    std::fprintf(stderr, "qwen3: %s\n", what);
    return status;
  };
  try {
    return parse_and_run(argc, argv);
  } catch (const usage_error& error) {
    return report(error.what(), usage_failure);
  } catch (const std::bad_alloc&) {
    return report("out of memory", failure);
  } catch (const std::exception& error) {
    return report(error.what(), failure);
  }
}

}  // namespace

}  // namespace qwen3

int main(int argc, char** argv) {
  qwen3::restart_with_better_blas_kernel(argv);
  return qwen3::run(argc, argv);
}
