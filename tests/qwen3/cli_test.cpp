#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.hpp"            // run_qwen3
#include "qwen3/safetensors.hpp"  // safetensors_file
#include "run_support.hpp"        // relative_error, notebook

namespace {

using namespace qwen3_test;

const std::string model = "--model " + shell_word(notebook);
const std::string data = "--data " + shell_word(notebook + "/test.jsonl");
const std::string golden = KVPOP_TEST_DATA "/checkpoints/llama_gqa_f32";

// The run failed with this status, said this, and nothing on stdout.
void check_refused(const std::string& arguments, int status, const std::string& words, const std::string& input = "") {
  const program_result r = run_qwen3(arguments, input);
  CAPTURE(arguments);
  CAPTURE(r.err);
  CHECK(r.status == status);
  CHECK(r.err.find(words) != std::string::npos);
  CHECK(r.out.empty());
}

std::string token_list(std::span<const std::int32_t> tokens, const char* separator) {
  std::string list;
  for (const std::int32_t token : tokens) list += (list.empty() ? "" : separator) + std::to_string(token);
  return list;
}

}  // namespace

TEST_CASE("help is a success, and what cannot be understood is a usage error") {
  const program_result help = run_qwen3("--help");
  CHECK(help.status == 0);
  for (const char* verb : {"logits", "tokenize", "generate", "eval", "inspect", "agree", "train", "notebook"})
    CHECK(help.out.find(verb) != std::string::npos);
  CHECK(run_qwen3("eval --help").status == 0);
  check_refused("", 2, "A subcommand is required");
  check_refused("dance", 2, "no verb is called \"dance\"");
  check_refused("generate --prompt x", 2, "--model is required");
  check_refused("generate --prompt x --fast " + model, 2, "--fast");
  check_refused("generate --prompt x --max-tokens ten " + model, 2, "--max-tokens");
  check_refused("generate --prompt x --max-tokens -1 " + model, 2, "--max-tokens");
  check_refused("generate --prompt x --temperature -1 " + model, 2, "--temperature");
  check_refused("generate --prompt x --chunk 0 " + model, 2, "--chunk");
  check_refused("generate --prompt x --method kvpop --budget 9x " + model, 2, "--budget");
  check_refused("generate --prompt x --method kvpop --budget 64 --compression 75 " + model, 2, "--compression");
  check_refused("inspect", 2, "inspect needs --model DIR or --scorer FILE");
}

TEST_CASE("methods and budgets that cannot be") {
  const std::string verb = "generate --prompt x " + model;
  check_refused(verb + " --method best --budget 64", 2, "no method is called \"best\"; there are full, streaming");
  check_refused(verb + " --method kvpop", 2, "--method kvpop needs --budget or --compression");
  check_refused(verb + " --method kvpop --budget 39", 2,
                "at least 4 sinks + 32 window + 3 for the scorer's memory + 1 long-range = 40");
  check_refused(verb + " --method kvpop --compression 100", 2, "--compression is 100");
  check_refused(verb + " --rope-dtype f8", 2, "--rope-dtype is \"f8\"; it must be f32, bf16 or f16");
  check_refused(verb + " --cache-dtype f8", 2, "--cache-dtype is \"f8\"; it must be f32, bf16 or f16");
  check_refused(verb + " --method kvpop --budget 64 --scorer " + shell_word(golden + "/model.safetensors"), 1,
                "metadata 'format' is 'pt'; it must be 'kvpop.scorer'");
  check_refused("logits --tokens 1 --output /dev/null --method kvpop --budget 64 --model " + shell_word(golden) +
                    " --scorer " + shell_word(notebook + "/scorers/kvpop.safetensors"),
                1, "scorer of another model: layers is 4 in the file and 2 in the model");
  check_refused("logits --tokens 1 --output /dev/null --method kvpop --budget 400 --model " + shell_word(golden), 2,
                "method kvpop needs a scorer");
}

TEST_CASE("what has no effect is said") {
  const auto said = [](const std::string& options, const std::string& words) {
    const program_result r = run_qwen3("generate --prompt x --max-tokens 1 " + model + " " + options);
    CAPTURE(r.err);
    CHECK(r.status == 0);
    CHECK(r.err.find(words) != std::string::npos);
  };
  said("--method full --budget 9", "method full keeps everything: the budget has no effect");
  said("--method tova --budget 64 --window 16 --sinks 4",
       "tova has its own sinks and window: --sinks and --window have no effect");
  said("--method h2o --budget 64 --window 16", "h2o has its own window: --window has no effect");
  said("--method keynorm --compression 0.75 --window 1 --sinks 0", "--compression is in per cent: 0.750000");
  const program_result used = run_qwen3("generate --prompt x --max-tokens 1 --method kvpop --budget 64 " + model);
  CHECK(used.err.find("no effect") == std::string::npos);
  check_refused("generate --prompt x --system y " + model, 2, "--system requires --chat");
}

TEST_CASE("files that cannot be used are failures") {
  check_refused("generate --prompt x --model /nowhere", 1, "/nowhere");
  check_refused("logits --tokens 1 --output /dev/null --model " + shell_word(KVPOP_TEST_DATA "/README.md"), 1,
                "README.md");
  check_refused("eval " + model + " --data /nowhere.jsonl", 1, "/nowhere.jsonl");
  check_refused("logits --tokens 1 --output /nowhere/x.safetensors --model " + shell_word(golden), 1, "/nowhere/x");
  check_refused("logits --tokens 1 --output /dev/full --model " + shell_word(golden), 1, "/dev/full");
  check_refused("inspect --scorer " + shell_word(notebook), 1, "notebook");
}

TEST_CASE("token lists") {
  const std::string verb = "logits --output /dev/null --model " + shell_word(golden) + " --tokens ";
  check_refused(verb + "5,130", 2, "token 1 is 130; the model's vocabulary has ids 0 to 129");
  check_refused(verb + "5,x", 2, "--tokens: \"x\" is not a token id");
  check_refused(verb + "5,,17", 2, "--tokens: entry 1 is empty");
  check_refused(verb + ",5", 2, "--tokens: entry 0 is empty");
  check_refused(verb + "5,17,", 2, "--tokens: entry 2 is empty");
  check_refused(verb + "-5", 2, "-5");
  check_refused(verb + "5,-7", 2, "\"-7\" is not a token id");
  check_refused(verb + "99999999999", 2, "\"99999999999\" is not a token id");
  check_refused(verb + "''", 2, "--tokens");
  check_refused(verb + "@/nowhere", 1, "/nowhere");
}

TEST_CASE("logits, keys and values of a golden checkpoint, from a list and from a file") {
  const auto expected = qwen3::safetensors_file::open(golden + "/expected.safetensors");
  const auto tokens = expected.at("input_ids").values<std::int32_t>();
  const temporary_directory directory;
  write_file(directory / "tokens", token_list(tokens, "\n"));
  for (const std::string& list : {token_list(tokens, ","), "@" + (directory / "tokens")}) {
    const program_result r = run_qwen3("logits --chunk 7 --model " + shell_word(golden) + " --tokens " +
                                       shell_word(list) + " --output " + shell_word(directory / "out.safetensors"));
    CHECK(r.err.empty());
    REQUIRE(r.status == 0);
    const auto made = qwen3::safetensors_file::open(directory / "out.safetensors");
    CHECK(made.tensors().size() == 5);
    for (const char* name : {"logits", "keys.0", "keys.1", "values.0", "values.1"}) {
      CHECK(made.at(name).shape == expected.at(name).shape);
      CHECK(relative_error(made.at(name).values<float>(), expected.at(name).values<float>()) < 2e-4);
    }
  }
}

TEST_CASE("logits under a budget hold no keys, and say what the budget comes to") {
  const auto tokens = qwen3::safetensors_file::open(golden + "/expected.safetensors");
  const temporary_directory directory;
  const program_result r =
      run_qwen3("logits --method random --budget 20 --sinks 2 --window 8 --model " + shell_word(golden) + " --tokens " +
                token_list(tokens.at("input_ids").values<std::int32_t>(), ",") + " --output " +
                shell_word(directory / "out.safetensors"));
  REQUIRE(r.status == 0);
  CHECK(r.err == "qwen3: random: 20 entries a head = 2 sinks + 8 window + 10 long-range\n");
  const auto made = qwen3::safetensors_file::open(directory / "out.safetensors");
  CHECK(made.tensors().size() == 1);
  CHECK(relative_error(made.at("logits").values<float>(), tokens.at("logits").values<float>()) > 1e-3);
}

TEST_CASE("tokenize there and back") {
  const std::string text = "note lilac goat\nask \u00e9 lilac  goat";
  const program_result ids = run_qwen3("tokenize " + model, text);
  CHECK(ids.status == 0);
  CHECK(ids.err.empty());
  const program_result back = run_qwen3("tokenize --decode " + model, ids.out);
  CHECK(back.status == 0);
  CHECK(back.out == text);
  CHECK(run_qwen3("tokenize " + model, "").out == "\n");
  CHECK(run_qwen3("tokenize --decode " + model, "\n").out.empty());
  check_refused("tokenize " + model, 1, "UTF-8", "ask \xff");
  check_refused("tokenize --decode " + model, 1, "99999", "99999");
}

TEST_CASE("generate: the prompt from the command line or stdin") {
  const std::string question = "note amber owl\nkeep amber\nthe old mill sees a barn\nask amber";
  const program_result given = run_qwen3("generate --max-tokens 1 --prompt " + shell_word(question) + " " + model);
  CHECK(given.status == 0);
  CHECK(given.out == " owl\n");
  CHECK(run_qwen3("generate --max-tokens 1 --prompt - " + model, question).out == given.out);
  CHECK(run_qwen3("generate --max-tokens 1 --prompt - --threads 1 --cache-dtype bf16 " + model, question).out ==
        " owl\n");
  const program_result full =
      run_qwen3("generate --max-tokens 1 --method full --budget 9 --prompt - " + model, question);
  CHECK(full.out == " owl\n");
  CHECK(full.err.find("the budget has no effect") != std::string::npos);
  check_refused("generate --prompt - " + model, 2, "the prompt is empty");
  check_refused("generate --prompt '' " + model, 2, "the prompt is empty");
  check_refused("generate --prompt - " + model, 1, "UTF-8", "ask \xff");
}

TEST_CASE("positions past the model's are one warning") {
  std::string tokens = "1";
  for (int i = 1; i < 520; ++i) tokens += ",1";  // the checkpoint has 512 positions
  const program_result r = run_qwen3("logits --output /dev/null --model " + shell_word(golden) + " --tokens " + tokens);
  CHECK(r.status == 0);
  CHECK(r.err.find("warning: positions go past the 512") != std::string::npos);
  CHECK(r.err.find("warning") == r.err.rfind("warning"));
}

TEST_CASE("eval: table, JSON, invalid lines") {
  const temporary_directory directory;
  const std::string json_path = directory / "out.json";
  const program_result r = run_qwen3("eval --limit 1 --methods full,kvpop --budgets 128,64 --json " +
                                     shell_word(json_path) + " " + model + " " + data);
  CHECK(r.err.empty());
  REQUIRE(r.status == 0);
  CHECK(r.out.find("kvpop") != std::string::npos);
  const auto json = nlohmann::json::parse(read_file(json_path));
  CHECK(json["lines"] == 1);
  CHECK(json["results"].size() == 3);
  CHECK(json["results"][2]["method"] == "kvpop");
  CHECK(json["results"][2]["budget"] == 64);
  write_file(directory / "bad.jsonl",
             "{\"text\": \"so the\", \"answers\": []}\n{\"text\": \"so\", \"answers\": [[1, 9]]}\n");
  check_refused("eval " + model + " --data " + shell_word(directory / "bad.jsonl"), 1,
                "bad.jsonl:2: answers[0] is [1,9]; the text has 2 bytes");
  check_refused("eval --budgets 30 --limit 1 " + model + " " + data, 2, "is too small");
  check_refused("eval --budgets 30,x --limit 1 " + model + " " + data, 2, "--budgets");
  check_refused("eval --methods full,best --limit 1 " + model + " " + data, 2, "no method is called \"best\"");
  const program_result no_room = run_qwen3("eval --limit 1 --methods full --json /dev/full " + model + " " + data);
  CHECK(no_room.status == 1);
  CHECK(no_room.err.find("/dev/full: cannot write: No space left on device") != std::string::npos);
  CHECK(no_room.out.find("full") != std::string::npos);  // the table is not lost
}

TEST_CASE("eval: what cannot be meant is refused before anything runs") {
  const std::string verb = "eval --limit 1 " + model + " " + data;
  check_refused(verb + " --methods kvpop,full,kvpop", 2, "--methods names kvpop twice");
  check_refused(verb + " --methods kvpop --budgets 64,128,64", 2, "--budgets names 64 twice");
  check_refused(verb + " --methods kvpop --compression 75,75", 2, "--compression names 75 twice");
  check_refused(verb + " --methods kvpop --compression 75,101", 2, "--compression is 101");
  check_refused(verb + " --methods kvpop --budgets 0", 2, "--budgets is 0; it must be in 1 ..");
  check_refused("eval --limit -1 " + model + " " + data, 2, "--limit");
  check_refused(verb + " --methods full --seed -1", 2, "--seed");
  check_refused(verb + " --methods full --sinks -1", 2, "--sinks is -1; it must be in 0 ..");
  check_refused(verb + " --methods full --window 0", 2, "--window is 0; it must be in 1 ..");
  check_refused("inspect --budget 0 " + model, 2, "--budget is 0; it must be in 1 ..");
  const std::string mlp = " --scorer " + shell_word(notebook + "/scorers/kvpop-mlp.safetensors");
  check_refused(verb + " --methods kvpop,random --budgets 64" + mlp, 2,
                "kvpop-mlp.safetensors is a scorer of method kvpop-mlp, which is not asked for");
  check_refused("generate --prompt x --method kvpop --budget 64 " + model + mlp, 2, "which is not asked for");
  check_refused(verb + " --methods random --budgets 64 --json /nowhere/x.json", 1, "/nowhere/x.json");
  check_refused(verb + " --methods random --budgets 64 --plot /nowhere/x.svg", 1, "/nowhere/x.svg");
  check_refused("generate --prompt x --map /nowhere/x.html " + model, 1, "/nowhere/x.html");
}

TEST_CASE("help that cannot be written is a failure; help that can is not") {
  const program_result shown = run_qwen3("eval --help");
  CHECK(shown.status == 0);
  CHECK(shown.out.find("--compression") != std::string::npos);
  CHECK(shown.err.empty());
  const temporary_directory directory;
  const std::string command = shell_word(KVPOP_QWEN3_BINARY) + " eval --help >/dev/full 2>" + (directory / "err");
  CHECK(std::system(command.c_str()) != 0);
  CHECK(read_file(directory / "err").find("cannot write to standard output") != std::string::npos);
}

TEST_CASE("a model whose numbers are not finite: nothing is sampled from it, nothing measured, nothing written") {
  const temporary_directory directory;
  std::filesystem::copy(notebook, directory / "m", std::filesystem::copy_options::recursive);
  std::string bytes = read_file(directory / "m/model.safetensors");
  bytes.replace(bytes.size() - 4, 4, std::string("\x00\x00\xc0\x7f", 4));  // the last weight of the file is NaN
  write_file(directory / "m/model.safetensors", bytes);
  const std::string broken = "--model " + shell_word(directory / "m");
  const std::string words = "at position 0 are not finite";
  check_refused("eval --limit 1 --methods full " + broken + " " + data, 1, words);
  check_refused("logits --tokens 5 --output " + shell_word(directory / "out") + " " + broken, 1, words);
  CHECK_FALSE(std::filesystem::exists(directory / "out"));
  const program_result made = run_qwen3("generate --prompt 'note amber' " + broken);
  CHECK(made.status == 1);
  CHECK(made.out.empty());
  CHECK(made.err.find("are not finite") != std::string::npos);
}

TEST_CASE("options reach what they are for: seed, temperature, top-k, top-p, cache dtype, compression") {
  const std::string prompt = " --max-tokens 24 --prompt " + shell_word("note amber owl\nso the mill") + " " + model;
  const auto text = [&](const std::string& options) {
    const program_result r = run_qwen3("generate " + options + prompt);
    CHECK(r.status == 0);
    return r.out;
  };
  const std::string greedy = text(""), warm = text("--temperature 2");
  CHECK(warm != greedy);
  CHECK(text("--temperature 2") == warm);
  CHECK(text("--temperature 2 --seed 1") == warm);
  CHECK(text("--temperature 2 --seed 2") != warm);
  CHECK(text("--temperature 2 --top-k 1") == greedy);
  CHECK(text("--temperature 2 --top-p 1e-6") == greedy);

  const auto held = [&](const std::string& options) {
    const program_result r = run_qwen3("generate --max-tokens 2 --prompt - " + options + " " + model,
                                       "note amber owl\n" + std::string(5 * 60, 'x') + "\n");
    CHECK(r.status == 0);
    const auto end = r.err.find(" KV bytes held");
    REQUIRE(end != std::string::npos);
    return std::stoll(r.err.substr(r.err.rfind(' ', end - 1)));
  };
  const long long all = held("");
  CHECK(held("--cache-dtype bf16") * 2 == all);
  CHECK(held("--cache-dtype f16") * 2 == all);
  constexpr long long entry = 2 * 64 * 4 * 2 * 4;  // key and value, f32, KV heads, layers
  const long long tokens = all / entry + 1;        // the last one was never appended
  CHECK(held("--method streaming --compression 50") == (tokens + 1) / 2 * entry);

  const auto first_result = [](const std::string& options) {
    const temporary_directory directory;
    CHECK(run_qwen3("eval --limit 1 --methods random --budgets 64 " + options + " --json " +
                    shell_word(directory / "o") + " " + model + " " + data)
              .status == 0);
    return nlohmann::json::parse(read_file(directory / "o"))["results"][0];
  };
  const auto one = first_result(""), other = first_result("--seed 2"), half = first_result("--cache-dtype bf16");
  CHECK(one["kl"] == first_result("--seed 1")["kl"]);
  CHECK(one["kl"] != other["kl"]);
  CHECK(half["kv_bytes"].get<long long>() * 2 == one["kv_bytes"].get<long long>());
  CHECK(half["kl"] != one["kl"]);
}

TEST_CASE("generation stops at the tokens that the model's configuration names") {
  const temporary_directory directory;
  std::filesystem::copy(notebook, directory / "m", std::filesystem::copy_options::recursive);
  const std::string question = "note amber owl\nkeep amber\nthe old mill sees a barn\nask amber";
  const std::string verb = "generate --max-tokens 3 --prompt - --model " + shell_word(directory / "m");
  const std::string whole = run_qwen3(verb, question).out;
  REQUIRE(whole.starts_with(" owl\n"));
  CHECK(whole.size() > 6);
  const std::string newline = run_qwen3("tokenize " + model, "\n").out;
  auto config = nlohmann::json::parse(read_file(directory / "m/config.json"));
  config["eos_token_id"] = std::stoi(newline);
  write_file(directory / "m/config.json", config.dump());
  std::filesystem::remove(directory / "m/generation_config.json");
  CHECK(run_qwen3(verb, question).out == " owl\n");  // the line feed is the verb's own
}

TEST_CASE("pictures: a plot of what methods lose, a page of what is held; where they cannot be drawn, that is said") {
  const temporary_directory directory;
  const std::string svg = directory / "plot.svg", page = directory / "map.html";
  const std::string verb = "eval --limit 1 " + model + " " + data;
  CHECK(run_qwen3(verb + " --methods full,streaming,kvpop --compression 75,88 --plot " + shell_word(svg)).status == 0);
  const std::string plot = read_file(svg);
  for (const char* word : {"<svg", "streaming", "kvpop", "compression of the KV cache"})
    CHECK(plot.find(word) != std::string::npos);
  check_refused(verb + " --methods full --plot " + shell_word(svg), 2, "there is nothing to draw");
  CHECK(read_file(svg) == plot);  // what was there is not lost
  const program_result no_place = run_qwen3(verb + " --methods full,streaming --budgets 64 --plot /nowhere/x.svg");
  CHECK(no_place.status == 1);
  CHECK(no_place.err.find("/nowhere/x.svg") != std::string::npos);

  const std::string prompt = "<b>note</b> amber owl\nkeep amber\nthe old mill sees a barn\nthe old mill sees a barn\n";
  const program_result made =
      run_qwen3("generate --method streaming --budget 8 --sinks 2 --window 6 --max-tokens 3 --prompt - --map " +
                    shell_word(page) + " " + model,
                prompt);
  REQUIRE(made.status == 0);
  const std::string html = read_file(page);
  CHECK(html.find("<!doctype html>") == 0);
  CHECK(html.find("held by 8 of 8 KV heads") != std::string::npos);
  CHECK(html.find("held by 0 of 8 KV heads") != std::string::npos);
  CHECK(html.find("<b>") == std::string::npos);  // the text is text
}

TEST_CASE("inspect: a model, a budget, a scorer") {
  const program_result r = run_qwen3("inspect --budget 128 " + model);
  REQUIRE(r.status == 0);
  CHECK(r.out.find("886400 in F32") != std::string::npos);
  CHECK(r.out.find("4096 = 4 layers x 2 KV heads x 2 x 64 x 4 bytes (f32)") != std::string::npos);
  CHECK(r.out.find("128 entries a head = 4 sinks + 32 window + 89 long-range + 3 for the scorer's memory") !=
        std::string::npos);
  const program_result scorer = run_qwen3("inspect --scorer " + shell_word(notebook + "/scorers/kvpop.safetensors"));
  REQUIRE(scorer.status == 0);
  CHECK(scorer.out.find("mlstm") != std::string::npos);
  CHECK(scorer.out.find("273 a head, charged as 3 entries (f32) or 5 (bf16, f16)") != std::string::npos);
}

TEST_CASE("agree reports differing evictions") {
  std::string text = "note amber owl\nkeep amber\n";
  for (int i = 0; i < 30; ++i) text += "the old mill sees a barn\n";
  const program_result r = run_qwen3("agree --method kvpop --budget 48 --chunk 16 --text - " + model, text);
  CHECK(r.status == 0);
  CHECK(r.out.find("replayed death times: 0 death times differ") != std::string::npos);
  check_refused("agree " + model, 2, "agree needs --tokens or --text");
}

TEST_CASE("train: what cannot be, before anything is read") {
  const temporary_directory directory;
  const std::string output = " --output " + shell_word(directory / "s.safetensors");
  write_file(directory / "t.txt", "the old mill sees a barn\n");
  const std::string verb = "train " + model + " --data " + shell_word(directory / "t.txt") + output;
  check_refused("train " + model + output, 2, "--data is required");
  check_refused(verb + " --scorer lstm", 2, "--scorer is \"lstm\"; it must be kvpop or kvpop-mlp");
  check_refused(
      verb + " --window 32 --budget 36", 2,
      "a budget of 36 entries a head leaves no long-range place: 4 sinks + 32 window + 3 for the scorer's memory");
  check_refused(verb + " --window 32 --delay 33", 2, "--delay is 33; it must be in 0 .. 32");
  check_refused(verb + " --window 600", 2, "--seq is 1024; it must be at least two windows, 1200");
  check_refused(verb + " --window 32 --state 16", 2, "--state needs two numbers");
  check_refused(verb + " --window 32 --target best", 2, "--target is \"best\"");
  check_refused(verb + " --window 32 --loss none", 2, "--loss is \"none\"; it must be boundary, regression or pairs");
  check_refused(verb + " --window 32 --aggregate sum", 2, "--aggregate is \"sum\"; it must be max or mean");
  check_refused(verb + " --window 32 --spread 0.5", 2, "--spread is 0.5");
  check_refused(verb + " --window 32 --compression 100", 2, "--compression is 100");
  check_refused(verb + " --window 32", 1, "t.txt has 7 tokens; at least two windows, 64, are needed");
  check_refused(verb + " --steps 0", 2, "--steps");
  check_refused(verb + " --lr 0", 2, "--lr");
}

TEST_CASE(
    "notebook makes data that train takes, and the scorer it trains is what eval takes; the oracle is eval's alone") {
  const temporary_directory directory;
  const program_result made = run_qwen3("notebook --sequences 3 --tokens 200 --seed 4");
  CHECK(made.status == 0);
  CHECK(std::count(made.out.begin(), made.out.end(), '\n') == 3);
  write_file(directory / "t.jsonl", made.out);
  const std::string scorer = shell_word(directory / "s.safetensors");
  const program_result trained = run_qwen3(
      "train " + model + " --data " + shell_word(directory / "t.jsonl") + " --scorer kvpop-mlp --output " + scorer +
      " --window 32 --seq 256 --budget 64 --steps 2 --batch 1 --hidden 4 --plot " + shell_word(directory / "p.svg"));
  CAPTURE(trained.err);
  CHECK(trained.status == 0);
  CHECK(trained.out.find("2 steps") != std::string::npos);
  CHECK(trained.err.find("memory") != std::string::npos);
  CHECK(read_file(directory / "p.svg").find("<svg") != std::string::npos);
  const program_result measured = run_qwen3("eval " + model + " --data " + shell_word(directory / "t.jsonl") +
                                            " --methods kvpop-mlp,oracle --budgets 64 --layers --scorer " + scorer);
  CAPTURE(measured.err);
  CHECK(measured.status == 0);
  CHECK(measured.out.find("oracle") != std::string::npos);
  CHECK(measured.out.find("recall by layer") != std::string::npos);
  check_refused("generate --prompt x --method oracle --budget 64 " + model, 2,
                "--method oracle knows the text that is still to come: only eval has it");
  CHECK(run_qwen3("notebook --sequences 0").out.empty());
  check_refused("notebook", 2, "--sequences is required");
}
