#!/usr/bin/env bash
# Trains the notebook model's scorers from scratch, every variant with three seeds, and evaluates them and the oracles: the
# table of docs/training.md, printed at the end. A result that is there already is not made again, so the runner can be stopped at
# any time.
#
# usage: notebook_table.sh QWEN3 RESULTS_DIRECTORY [VARIANT...]
set -euo pipefail
(($# > 1)) || {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
readonly qwen3=$1 results=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here model=$here/models/notebook
work=${KVPOP_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kvpop}/notebook
readonly work seeds=(1 2 3) budgets=128,64
mkdir -p "$work" "$results"

# A variant, the scorer it trains and what it changes of the recipe. `max` is the target of the recipe: docs/training.md.
variants() {
  cat <<'EOF_VARIANTS'
kvpop             kvpop
kvpop-mlp         kvpop-mlp
kvpop-undelayed   kvpop      --delay 0
mlp-regression    kvpop-mlp  --loss regression
mlp-pairs         kvpop-mlp  --loss pairs
mlp-no-decay      kvpop-mlp  --no-decay
mlp-group-mean    kvpop-mlp  --aggregate mean
mlp-target-rms    kvpop-mlp  --target rms
mlp-target-mean   kvpop-mlp  --target mean
mlp-target-power3 kvpop-mlp  --target power:3
mlp-target-power1.5 kvpop-mlp --target power:1.5
mlp-target-sum    kvpop-mlp  --target sum
mlp-student-lse   kvpop-mlp  --lse student
kvpop-target-rms  kvpop      --target rms
kvpop-no-decay    kvpop      --no-decay
kvpop-regression  kvpop      --loss regression
EOF_VARIANTS
}
# Shared by all: 400 steps of 4 rows, a fresh row every time.
readonly recipe=(--budget 64 --window 32 --sinks 4 --seq 1024 --batch 4 --steps 400 --lr 1e-2 --target max)

data() { # SEED
  local file=$work/train-$1.jsonl
  [[ -f $file ]] || { "$qwen3" notebook --sequences 1600 --tokens 1024 --seed "$((1000 + $1))" >"$file.part" && mv "$file.part" "$file"; }
  printf '%s' "$file"
}

# Later options win over the recipe's: CLI11 takes an option once, so the recipe drops what a variant sets.
arguments() { # EXTRA...
  local i option
  for ((i = 0; i < ${#recipe[@]}; i += 2)); do
    for option in "$@"; do [[ $option != "${recipe[i]}" ]] || continue 2; done
    printf '%s\n%s\n' "${recipe[i]}" "${recipe[i + 1]}"
  done
  (($# == 0)) || printf '%s\n' "$@"
}

train_and_measure() { # VARIANT SCORER SEED EXTRA...
  local name=$1 scorer=$2 seed=$3 options
  local json=$results/$name-$seed.json file=$work/$name-$seed.safetensors
  shift 3
  [[ ! -f $json ]] || return 0
  mapfile -t options < <(arguments "$@")
  echo "notebook: $name, seed $seed"
  "$qwen3" train --model "$model" --data "$(data "$seed")" --scorer "$scorer" --output "$file" --seed "$seed" \
    --threads "${KVPOP_THREADS:-1}" "${options[@]}" 2>"$work/$name-$seed.log"
  "$qwen3" eval --model "$model" --data "$model/test.jsonl" --scorer "$file" --methods "$scorer" --budgets "$budgets" \
    --threads "${KVPOP_THREADS:-1}" --target max --json "$json" >/dev/null
}

oracles() {
  local target json
  for target in sum mean power:1.5 rms power:3 max; do
    json=$results/oracle-${target/:/}.json
    [[ -f $json ]] || "$qwen3" eval --model "$model" --data "$model/test.jsonl" --methods oracle --budgets "256,$budgets" \
      --target "$target" --threads "${KVPOP_THREADS:-1}" --json "$json" >/dev/null
  done
  json=$results/training-free.json
  [[ -f $json ]] || "$qwen3" eval --model "$model" --data "$model/test.jsonl" --budgets "$budgets" --target max --json "$json" \
    --methods full,streaming,random,keynorm,tova,h2o,snapkv --threads "${KVPOP_THREADS:-1}" >/dev/null
}

wanted() { # VARIANT NAMES...
  local name=$1 one
  shift
  (($#)) || return 0
  for one in "$@"; do [[ $one != "$name" ]] || return 0; done
  return 1
}

main() {
  local seed name scorer extra todo=0
  for seed in "${seeds[@]}"; do
    while read -r name scorer extra; do
      if wanted "$name" "$@" && [[ ! -f $results/$name-$seed.json ]]; then todo=$((todo + 1)); fi
    done < <(variants)
  done
  echo "notebook: $todo trainings to go, some two minutes each on one core"
  oracles
  for seed in "${seeds[@]}"; do
    while read -r name scorer extra; do
      wanted "$name" "$@" || continue
      # shellcheck disable=SC2086 # extra is a list of options
      train_and_measure "$name" "$scorer" "$seed" $extra </dev/null
    done < <(variants)
  done
}

# Means over the seeds with the lowest and the highest, as a Markdown table.
table() {
  awk -f "$here/results_rows.awk" "$results"/*.json | awk '
    { name = $1; sub(/-[0-9]+$/, "", name); if (name == "training-free") name = $2 }
    $4 != 128 && $4 != 64 && $2 != "full" { next }
    { key = name " " $4; if (!(name in seen)) { seen[name] = 1; names[++count] = name }
      if (!(key in n) || $5 < low[key]) low[key] = $5
      if (!(key in n) || $5 > high[key]) high[key] = $5
      sum[key] += $5; kl[key] += $6; ++n[key] }
    function cell(key) {
      if (!(key in n)) return "- | -"
      return (n[key] > 1 ? sprintf("%.3f (%.3f to %.3f)", sum[key] / n[key], low[key], high[key]) : sprintf("%.3f", sum[key])) \
        sprintf(" | %.4f", kl[key] / n[key])
    }
    END {
      print "| run | right at 128 | KL | right at 64 | KL |\n| --- | --- | --- | --- | --- |"
      for (i = 1; i <= count; ++i) if (names[i] != "full") print "| " names[i] " | " cell(names[i] " 128") " | " cell(names[i] " 64") " |"
    }'
}

main "${@:3}"
table
