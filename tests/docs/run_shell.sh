#!/usr/bin/env bash
# Runs the ```sh blocks of a document, in order, in one shell, from a copy of the repository's top with only what they name.
# usage: run_shell.sh DOCUMENT REPOSITORY DIRECTORY_OF_QWEN3
set -euo pipefail
document=$1 repository=$2 binaries=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$repository/examples" "$work/examples"
awk '/^```sh/ { inside = 1; next } /^```/ { inside = 0 } inside' "$document" >"$work/commands"
[[ -s $work/commands ]] || {
  echo "$document has no sh block"
  exit 1
}
cd "$work"
PATH="$binaries:$PATH" bash -euo pipefail -x commands </dev/null
