#!/usr/bin/env bash
# Turns text files into what `qwen3 eval --data` reads: pieces of at most BYTES bytes, one JSON object a line, without
# answers: methods can be compared on any text. What is not UTF-8 and control characters are left out.
#
# usage: text_lines.sh BYTES PIECES FILE...     PIECES: at most so many of each file
set -euo pipefail
(($# > 2)) || {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
[[ $1 =~ ^[1-9][0-9]*$ && $2 =~ ^[1-9][0-9]*$ ]] || {
  echo "text_lines.sh: BYTES and PIECES are '$1' and '$2'; they must be whole numbers from 1" >&2
  exit 2
}
readonly bytes=$1 pieces=$2

# JSON's escapes, and the lines of a piece on one line.
one_line() { sed -e 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | awk '{ printf "%s\\n", $0 }'; }

for file in "${@:3}"; do
  for ((i = 0; i < pieces; ++i)); do
    text=$(tail -c +$((i * bytes + 1)) "$file" | head -c "$bytes" | iconv -c -f UTF-8 -t UTF-8 | tr -d '\000-\010\013-\037' | one_line) || true
    [[ -n $text ]] && printf '{"text": "%s", "answers": []}\n' "$text"
  done
done
