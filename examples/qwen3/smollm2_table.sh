#!/usr/bin/env bash
# Trains both scorers for SmolLM2-135M-Instruct (./dev fetch smollm2) on text of this machine's packages and measures every
# method on windows of held-out text and on facts asked for at their end: the tables of docs/training.md, printed at the end.
# What is there already is not made again, so the runner can be stopped at any time.
#
# On two cores: some 35 minutes a training, some 20 minutes a method measured; hours in all.
#
# usage: smollm2_table.sh QWEN3 RESULTS_DIRECTORY
set -euo pipefail
(($# == 2)) || {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
readonly qwen3=$1 results=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${KVPOP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvpop}
readonly here cache work=$cache/smollm2-training
readonly model=$work/model text=$work/text
readonly windows=100 window_tokens=2048 probes=40
mkdir -p "$model/scorers" "$results"

[[ -f $cache/smollm2/model.safetensors ]] || {
  echo "smollm2_table.sh: $cache/smollm2 has no model; ./dev fetch smollm2 gets it" >&2
  exit 1
}
ln -sf "$cache/smollm2"/*.* "$model/" # a directory of its own, for its scorers

[[ -f $text/test.jsonl ]] || "$here/package_text.sh" "$text" 1800

head -n 12 "$text/valid.jsonl" >"$work/valid.jsonl" # all of it would take a quarter of an hour

# Between 75 and 88 per cent: budgets are drawn around it, from 7.5 to 30 per cent kept.
train() { # SCORER STEPS
  local file=$model/scorers/$1.safetensors
  [[ ! -f $file ]] || return 0
  echo "smollm2: training $1"
  "$qwen3" train --model "$model" --data "$text/train.jsonl" --valid "$work/valid.jsonl" --scorer "$1" --output "$work/$1.safetensors" \
    --compression 82 --window 64 --seq "$window_tokens" --batch 2 --steps "$2" --eval-every "$2" --log "$work/$1.log.jsonl"
  cp "$work/$1.log.jsonl" "$results/train-$1.jsonl"
  mv "$work/$1.safetensors" "$file"
}

measured() { # NAME EVAL_OPTIONS...
  local json=$results/$1.json
  [[ ! -f $json ]] || return 0
  echo "smollm2: measuring $1"
  "$qwen3" eval --model "$model" --chunk 512 --compression 75,88 --json "$json" "${@:2}" >/dev/null
}

measure() { # NAME METHODS
  measured "windows-$1" --methods "$2" --data "$text/test.jsonl" --limit "$windows" --truncate "$window_tokens"
  measured "probe-$1" --methods "$2" --data "$text/probe.jsonl" --limit "$probes"
}

table() { # windows or probe
  awk -f "$here/results_rows.awk" "$results/$1"-*.json | awk -v kind="$1" '
    function cells(a, b) { return kind == "probe" ? a : b }
    NR == 1 {
      print cells("| method | kept | right | KL |", "| method | kept | loss over the full model [95 %] | KL [95 %] | first choice agrees | recall |")
      print cells("| --- | --- | --- | --- |", "| --- | --- | --- | --- | --- | --- |")
    }
    $2 == "full" { if (kind == "probe") printf "| full | all | %.3f | 0 |\n", $5; next }
    { kept = ++n[$2] == 1 ? "1/4" : "1/8"
      print cells(sprintf("| %s | %s | %.3f | %.4f |", $2, kept, $5, $6), sprintf("| %s | %s | %.4f [%.4f, %.4f] | %.4f [%.4f, %.4f] | %.3f | %.3f |",
        $2, kept, $11, $12, $13, $6, $7, $8, $9, $14)) }'
}

train kvpop 240
train kvpop-mlp 240
measure learned kvpop-mlp,kvpop
measure streaming-h2o full,streaming,h2o
measure tova-snapkv tova,snapkv
measure oracle oracle
measure controls random,keynorm
table windows
echo
table probe
