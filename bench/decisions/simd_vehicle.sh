#!/usr/bin/env bash
# Measures what docs/decisions/0001-simd-vehicle.md rests on: what each vehicle costs to include and to compile, and how
# fast two kernels written with it run. Needs a CPU with AVX2. usage: bench/decisions/simd_vehicle.sh [COMPILER...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
(($#)) || set -- g++-12 clang++-14
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly source=bench/decisions/simd_vehicle.cpp
readonly vehicles=(program loops stdx vectors intrinsics)

# CPU seconds of the best of seven.
best() { # COMMAND...
  local TIMEFORMAT='%U %S'
  for _ in 1 2 3 4 5 6 7; do
    { time "$@" >/dev/null; } 2>&1
  done | awk '{ t = $1 + $2; if (NR == 1 || t < least) least = t } END { printf "%.2f", least }'
}

parse() { # HEADER...
  printf '#include <%s>\n' "$@" >"$work/header.cpp"
  best "$compiler" -std=c++20 -Iinclude -march=x86-64-v3 -fsyntax-only "$work/header.cpp"
}

grep -m1 'model name' /proc/cpuinfo
for compiler; do
  "$compiler" --version | head -1
  printf ' including, s: <cstdint> %s, <immintrin.h> %s, <experimental/simd> %s, kvpop/core/simd.hpp %s\n' \
    "$(parse cstdint)" "$(parse immintrin.h)" "$(parse experimental/simd)" "$(parse kvpop/core/simd.hpp)"
  for optimisation in -O2 -O3; do
    options=(-std=c++20 -Iinclude -march=x86-64-v3 "$optimisation" -DNDEBUG -fno-math-errno)
    objects=() compile=
    for i in "${!vehicles[@]}"; do
      objects+=("$work/$i.o")
      command=("$compiler" "${options[@]}" -DKVPOP_VEHICLE="$i" -c "$source" -o "$work/$i.o")
      if ((i)); then
        compile+=" ${vehicles[i]} $(best "${command[@]}")"
      else
        "${command[@]}"
      fi
    done
    "$compiler" "${objects[@]}" -o "$work/program"
    printf ' %s; compiling both kernels, s:%s\n' "$optimisation" "$compile"
    "$work/program"
  done
done
