#!/usr/bin/env bash
# Measures the performance table of docs/benchmarks/performance.md: test/perf/run.sh [CELL...]
#
# The server is pinned to processor 0, the load generator to processor 1. The relevant result is the server's CPU time per request.
# Cells: read read256 fresh write batch scan update condition lookup indexed viewed. Default: all. With CASSANDRA=DIR, an Apache Cassandra is
# installed there from Maven Central and measured with the same tool in the same run (all cells except read256, fresh, and batch).
# DURATION (default 10s) is the length of each measurement, ROUNDS (default 1) the number of repetitions. nodes.sh describes BASE and ILION.
set -euo pipefail
. "$(dirname "$0")/nodes.sh"
cells=${*:-read read256 fresh write batch scan update condition lookup indexed viewed}
duration=${DURATION:-10s} rounds=${ROUNDS:-1} keys=${KEYS:-100000}
at=(taskset -c 1)

start() { # commit mode, GOMAXPROCS
  stop
  pin=(env GOMAXPROCS="$2" taskset -c 0)
  node 1 --commit "$1"
}
measure() { # label, arguments of bench...
  local label=$1; shift
  for _ in $(seq "$rounds"); do
    printf '%-28s %s\n' "$label" "$("${load[@]}" "$@" --duration "$duration" | python3 -c '
import json, sys
r = json.load(sys.stdin)
rows = r["rows_per_request"]
cpu = r["server_cpu_us_per_request"]
print("%8.0f req/s  p50 %6.0f us  p99 %7.0f us  CPU %8.2f us/req%s  errors %d" % (r["requests_per_second"], r["latency_us"]["p50"], r["latency_us"]["p99"], cpu, "  %.3f us/row" % (cpu / rows) if rows > 1 else "", r["errors"]))')"
  done
}
load=(bench 1)
fill() { bench 1 "$@" --duration 1s >/dev/null; }
for cell in $cells; do
  case $cell in
  read) start periodic 1; fill read --keys "$keys"; compact
    measure "ilion read 16x16 compacted" read --keys "$keys" --skip-load ;;
  read256) start periodic 1; fill read --keys "$keys"; compact
    measure "ilion read 256x1 compacted" read --keys "$keys" --connections 256 --inflight 1 --skip-load ;;
  fresh) start periodic 1; measure "ilion read 16x16 fresh" read --keys "$keys" ;;
  write) start periodic 1; measure "ilion write periodic 16x16" write --keys 10000000 ;;
  batch) start batch 2; measure "ilion write batch 16x16" write --keys 10000000 ;;
  scan) start periodic 1; fill scan --keys 300 --row-size 200; compact
    measure "ilion scan 1000 rows 4x2" scan --connections 4 --inflight 2 --keys 300 --row-size 200 --skip-load ;;
  update) start periodic 1; measure "ilion update 1 of 5 16x16" update --keys "$keys" ;;
  condition) start periodic 1; measure "ilion update IF EXISTS 16x16" condition --keys "$keys" ;;
  lookup) start periodic 1; fill lookup --keys "$keys"; compact
    measure "ilion 10 rows by an index 4x4" lookup --connections 4 --inflight 4 --keys "$keys" --skip-load ;;
  indexed) start periodic 1; measure "ilion write, one index" indexed --keys 10000000 ;;
  viewed) start periodic 1; measure "ilion write, one view" viewed --keys 10000000 ;;
  *) echo "unknown cell $cell" >&2; exit 2 ;;
  esac
done
stop
if [ -n "${CASSANDRA:-}" ]; then
  pids=("$(taskset -c 0 test/perf/cassandra.sh "$CASSANDRA" 19142)")
  load=("${at[@]}" "$work/ilion" bench)
  cass=(--addr 127.0.0.1:19142 --server-pid "${pids[0]}" --warmup 20s --json)
  for cell in $cells; do
    case $cell in
    write) measure "cassandra write periodic" write "${cass[@]}" --keys 10000000 ;;
    read) measure "cassandra read 16x16" read "${cass[@]}" --keys "$keys" ;;
    scan) measure "cassandra scan 1000 rows 4x2" scan "${cass[@]}" --connections 4 --inflight 2 --keys 300 --row-size 200 ;;
    update) measure "cassandra update 1 of 5 16x16" update "${cass[@]}" --keys "$keys" ;;
    condition) measure "cassandra update IF EXISTS" condition "${cass[@]}" --keys "$keys" ;;
    lookup) measure "cassandra 10 rows by an index" lookup "${cass[@]}" --connections 4 --inflight 4 --keys "$keys" ;;
    indexed) measure "cassandra write, one index" indexed "${cass[@]}" --keys 10000000 ;;
    viewed) measure "cassandra write, one view" viewed "${cass[@]}" --keys 10000000 ;;
    esac
  done
fi
