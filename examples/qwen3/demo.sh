#!/usr/bin/env bash
# What `./dev demo` shows once the engine is built: a question about things read a thousand tokens ago, asked under a
# budget; every method measured; the picture and the map of what is held; a scorer trained while you wait; and a real model
# when one was fetched. Some two minutes on two cores, three with the real model.
#
# usage: demo.sh QWEN3 [--full] [OUTPUT_DIRECTORY]     --full: then every training of docs/training.md too, which takes hours
set -euo pipefail

readonly qwen3=$1
full=
[[ ${2:-} != --full ]] || {
  full=1
  set -- "$1" "${@:3}"
}
readonly full
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
readonly here root
readonly output=${2:-$root/build/demo}
readonly notebook=$here/models/notebook
readonly lines=32 # texts of the test file, which has 64
readonly smollm2=${KVPOP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvpop}/smollm2

bold='' plain=''
[[ ! -t 1 ]] || bold=$'\033[1m' plain=$'\033[0m'
readonly bold plain
say() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

# Line $1 of the test file as plain text, up to and with the last question, whose answer is left out.
prompt() {
  sed -n "$1p" "$notebook/test.jsonl" | sed -e 's/^{"text": "//; s/", "answers".*//' -e 's/\\n/\n/g' |
    awk '{ text[NR] = $0 } /^ask / { last = NR }
         END { for (i = 1; i < last; ++i) print text[i]; split(text[last], word, " "); printf "%s %s", word[1], word[2] }'
}

expected() { sed -n "$1p" "$notebook/test.jsonl" | sed 's/\\n/\n/g' | awk '/^ask / { answer = $3 } END { print answer }'; }

# The engine without its notes on stderr, which are shown when it fails.
quietly() {
  "$qwen3" "$@" 2>"$output/messages.txt" || {
    cat "$output/messages.txt" >&2
    return 1
  }
}

answer_of() { # LINE METHOD BUDGET
  prompt "$1" | quietly generate --model "$notebook" --prompt - --max-tokens 1 --method "$2" --budget "$3" | tr -d '\n'
}

side_by_side() {
  local budget=128 line question
  say "the same questions under three caches"
  echo "Each prompt is about 1,000 tokens of jottings and ends with a question. Full holds all of them; the others hold"
  echo "$budget entries a head, an eighth."
  printf '\n  %-16s %-10s %-10s %-16s %s\n' question right full "streaming $budget" "kvpop $budget"
  for line in 1 2 3 4 5 6 7 8; do
    question=$(prompt "$line" | tail -n 1)
    printf '  %-16s %-10s %-10s %-16s %s\n' "$question" "$(expected "$line")" "$(answer_of "$line" full 2000)" \
      "$(answer_of "$line" streaming "$budget")" "$(answer_of "$line" kvpop "$budget")"
  done
}

measure() {
  say "every method at 75, 88 and 94 % compression, $lines texts of 1,024 tokens"
  "$qwen3" eval --model "$notebook" --data "$notebook/test.jsonl" --compression 75,88,94 --limit "$lines" \
    --json "$output/notebook.json" --plot "$output/retention.svg" --plot-layers "$output/recall.svg"
}

maps() {
  local method
  for method in streaming kvpop; do
    prompt 1 | quietly generate --model "$notebook" --prompt - --max-tokens 1 --method "$method" --budget 128 \
      --map "$output/held-$method.html" >/dev/null
  done
}

# Accuracy of a scorer file at 64 entries a head, on 16 texts.
accuracy_of() { # SCORER
  quietly eval --model "$notebook" --data "$notebook/test.jsonl" --limit 16 --methods kvpop-mlp --budgets 64 --scorer "$1" |
    awk '$1 == "kvpop-mlp" { print $5 }'
}

live_training() {
  local steps=300 recipe
  say "a scorer trained from scratch, for 64 entries a head, $steps steps: about a minute"
  recipe=(train --model "$notebook" --data "$output/train.jsonl" --scorer kvpop-mlp --budget 64 --window 32 --target max)
  "$qwen3" notebook --sequences $((steps * 4)) --tokens 1024 --seed 7 >"$output/train.jsonl"
  quietly "${recipe[@]}" --steps 1 --lr 1e-12 --output "$output/untrained.safetensors" >/dev/null
  "$qwen3" "${recipe[@]}" --steps "$steps" --output "$output/trained.safetensors" --plot "$output/training.svg"
  echo "answers kept on 16 texts of 1,024 tokens: $(accuracy_of "$output/untrained.safetensors") before," \
    "$(accuracy_of "$output/trained.safetensors") after"
}

real_model() {
  if [[ ! -f $smollm2/model.safetensors ]]; then
    say "a real language model: not fetched; './dev fetch smollm2' (94 MB) and the demo shows it too"
    return
  fi
  say "SmolLM2-135M-Instruct, holding 64 entries a head"
  "$qwen3" generate --model "$smollm2" --chat --prompt "What is the capital of France, and what is it known for?" \
    --max-tokens 80 --method h2o --budget 64
  say "SmolLM2 on this project's own text, at a quarter of the cache"
  "$here/text_lines.sh" 2000 1 "$root/docs/method.md" >"$output/text.jsonl"
  "$qwen3" eval --model "$smollm2" --data "$output/text.jsonl" --methods full,streaming,keynorm,h2o,tova,snapkv \
    --compression 75 --window 64 --json "$output/smollm2.json"
}

mkdir -p "$output"
side_by_side
measure
maps
live_training
real_model
[[ -z $full ]] || {
  say "every training of docs/training.md"
  "$here/notebook_table.sh" "$qwen3" "$output/notebook"
}
say "files"
cat <<EOF
  $output/retention.svg         answers kept against compression
  $output/recall.svg            which share of the tokens that matter each layer still holds
  $output/training.svg          the curve of the training
  $output/held-kvpop.html       which tokens each KV head still holds, coloured over the text
  $output/held-streaming.html   the same for StreamingLLM
  $output/notebook.json         the table above
EOF
[[ ! -f $output/smollm2.json ]] || echo "  $output/smollm2.json          the real model's"
echo "  try: $qwen3 --help"
