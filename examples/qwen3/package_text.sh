#!/usr/bin/env bash
# Real text from this machine's own Debian packages, split by file so that no file is in two parts, nor a copy of it, nor
# another version of the same name: train.jsonl, valid.jsonl and test.jsonl ({"text"} a line, a file each, cut at 60,000 bytes), and probe.jsonl: test files with a fact
# stated at their beginning and asked for at their end. What is in it is listed in sources.txt.
#
# Documentation: cmake-data, vim-runtime (help), copyright files and READMEs of all packages. Source: Python's and Perl's
# libraries, libstdc++'s headers, CMake's modules.
#
# usage: package_text.sh OUTPUT_DIRECTORY [FILES]     FILES: at most so many (default 1500)
set -euo pipefail
(($# > 0)) || {
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
readonly output=$1 most=${2:-1500} longest=60000 test_bytes=16000
readonly places=(/usr/share/cmake-*/Help /usr/share/cmake-*/Modules /usr/share/vim /usr/share/doc /usr/lib/python3*
  /usr/share/perl /usr/include/c++)
mkdir -p "$output"

candidates() {
  find "${places[@]}" -type f -size +11k -size -400k \( -name '*.rst' -o -name '*.cmake' -o -name '*.txt' -o -name copyright \
    -o -name 'README*' -o -name '*.py' -o -name '*.p[ml]' -o -name '*.pod' -o -name '*.h' -o -name '*.tcc' \) 2>/dev/null
}

number_of() { cksum | cut -d' ' -f1; }
# A number that a path decides: the order does not depend on what else is installed.
hashed() { while IFS= read -r path; do printf '%s %s\n' "$(number_of <<<"$path")" "$path"; done; }
# Nor does the part that a file belongs to, which its name decides, since packages carry versions of each other's files.
part_number() { # PATH
  local name=${1##*/}
  [[ $name != copyright && $name != README* && $name != __init__.py ]] || name=$1
  number_of <<<"$name"
}

plain() { # FILE BYTES: printable ASCII, at most so many bytes
  head -c "$2" "$1" | tr -d '\r' | LC_ALL=C tr -cd '\11\12\40-\176'
}
escaped() { sed -e 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g' | awk '{ printf "%s\\n", $0 }'; }

# A fact in one of several wordings, and the question that asks for it, in another: `fact|question up to the answer`.
readonly things=(lantern harbour orchard violin glacier compass bakery meadow lighthouse quarry)
readonly colours=(red green blue white black golden silver purple brown grey)
readonly answers=(table river winter garden music paper window silver summer market)
wording() { # KIND THING COLOUR ANSWER
  case $1 in
    0) echo "The password of the $3 $2 is $4.|Question: What is the password of the $3 $2? Answer: The password of the $3 $2 is" ;;
    1) echo "Remember this: the secret word for the $3 $2 is $4.|As stated at the beginning, the secret word for the $3 $2 is" ;;
    2) echo "Note to the reader: whoever asks about the $3 $2 must be told $4.|Whoever asks about the $3 $2 must be told" ;;
    *) echo "In what follows, the code name of the $3 $2 is $4.|What was the code name of the $3 $2? It was" ;;
  esac
}

probe() { # NUMBER FILE
  local answer=${answers[$((($1 / 3) % 10))]} both text fact question begin
  both=$(wording $(($1 % 4)) "${things[$(($1 % 10))]}" "${colours[$((($1 / 10) % 10))]}" "$answer")
  fact=${both%%|*} question=${both#*|}
  text=$(printf '%s\n\n' "$fact"; plain "$2" 5600; printf '\n\n%s' "$question")
  begin=${#text}
  printf '{"text": "%s %s", "answers": [[%d, %d]]}\n' "$(printf '%s' "$text" | escaped | sed 's/\\n$//')" "$answer" \
    "$begin" $((begin + 1 + ${#answer}))
}

: >"$output/sources.txt"
for part in train valid test probe; do : >"$output/$part.jsonl"; done
probes=0
declare -A seen
while read -r _ path; do
  case $(($(part_number "$path") % 10)) in
    0) part=valid bytes=$test_bytes ;;
    1 | 2) part=test bytes=$test_bytes ;;
    *) part=train bytes=$longest ;;
  esac
  text=$(plain "$path" "$bytes" | escaped)
  ((${#text} > 9000)) || continue
  beginning=$(number_of <<<"${text:0:4000}")
  [[ -z ${seen[$beginning]:-} ]] || continue
  seen[$beginning]=1
  printf '{"text": "%s", "answers": []}\n' "$text" >>"$output/$part.jsonl"
  printf '%s %s\n' "$part" "$path" >>"$output/sources.txt"
  if [[ $part == test ]]; then
    probe "$probes" "$path" >>"$output/probe.jsonl"
    probes=$((probes + 1))
  fi
done < <(candidates | sort | hashed | sort -n | head -n "$most")
wc -l "$output"/*.jsonl
