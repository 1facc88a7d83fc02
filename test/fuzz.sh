#!/usr/bin/env bash
# Runs every fuzz target of the repository for TIME each (default 60s) and prints the number of executions: test/fuzz.sh [TIME]
set -euo pipefail
cd "$(dirname "$0")/.."
each=${1:-60s}
grep -rlE '^func Fuzz[A-Z]' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go | sed 's/^func //' | sort -u | while read -r target; do
    printf '%s %s: ' "$dir" "$target"
    out=$(go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "$each" 2>&1) || { echo "FAILED"; echo "$out"; exit 1; }
    echo "$out" | grep -oE 'execs: [0-9]+' | tail -1
  done
done
