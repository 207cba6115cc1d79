#!/bin/sh
# Code that must not compile: run.sh COMPILER...
#
# Each NN_name.cpp compiles as it is, and with -DKVPOP_FAIL fails with a diagnostic that matches the extended regular
# expression of its first line, "// expect: <regex>".

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failures=0

complain() {
  echo "$1" >&2
  sed 's/^/    /' "$log" | head -20 >&2
  failures=$((failures + 1))
}

for compiler in "$@"; do
  for file in "$here"/[0-9][0-9]_*.cpp; do
    name="$compiler: $(basename "$file")"
    expect=$(sed -n '1s|^// expect: ||p' "$file")
    compile="$compiler -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I$here/../../include"
    if [ -z "$expect" ]; then
      complain "$name: the first line is not '// expect: <regex>'"
    elif ! $compile "$file" >"$log" 2>&1; then
      complain "$name: does not compile without -DKVPOP_FAIL"
    elif $compile -DKVPOP_FAIL "$file" >"$log" 2>&1; then
      complain "$name: compiles with -DKVPOP_FAIL"
    elif ! grep -E 'error|static' "$log" | grep -Eq "$expect"; then
      complain "$name: no diagnostic matches '$expect'"
    fi
  done
done
[ "$failures" -eq 0 ] && [ "$#" -gt 0 ]
