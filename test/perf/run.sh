#!/usr/bin/env bash
# The performance table of docs/performance.md: test/perf/run.sh [CELL...]
#
# The server is pinned to processor 0, the load generator to processor 1; the figure that counts is the server's CPU time per request.
# Cells: read read256 fresh write batch scan update. Default: all of them. With CASSANDRA=DIR an Apache Cassandra is put there from
# Maven Central and measured by the same tool in the same run (cells read, write, batch and scan).
# DURATION (default 10s) is the length of each measurement, ROUNDS (default 1) how often each is taken. ILION names a program other than
# the one built here, to compare.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
cells=${*:-read read256 fresh write batch scan update}
duration=${DURATION:-10s} rounds=${ROUNDS:-1} keys=${KEYS:-100000}
CGO_ENABLED=${CGO_ENABLED:-0} go build -o "$work/ilion" ./cmd/ilion
ilion=${ILION:-$work/ilion}
server=""
stop() { [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; server=""; }; }
trap 'stop; rm -rf "$work"' EXIT

start() { # commit mode, GOMAXPROCS
  stop
  rm -rf "$work/data"
  printf 'splits:\n  request_units_per_second: -1\n' >"$work/config.yaml" # the table stays one physical partition
  GOMAXPROCS=$2 taskset -c 0 "$ilion" start --data "$work/data" --config "$work/config.yaml" --cql 127.0.0.1:19043 --http 127.0.0.1:19044 --commit "$1" --log-level warn >"$work/out" 2>"$work/log" &
  server=$!
  for _ in $(seq 100); do grep -q ready "$work/out" && return; sleep 0.1; done
  cat "$work/log"; exit 1
}
compact() { # programs from before the socket take orders at the address
  curl -fsS --unix-socket "$work/data/admin.sock" -X POST http://localhost/compact >/dev/null 2>&1 || curl -fsS -X POST http://127.0.0.1:19044/compact >/dev/null
}
bench() { # label, arguments...
  label=$1; shift
  for _ in $(seq "$rounds"); do
    out=$(taskset -c 1 "$work/ilion" bench "$@" --json --duration "$duration" 2>>"$work/progress")
    printf '%-28s %s\n' "$label" "$(python3 -c '
import json, sys
r = json.loads(sys.argv[1])
rows = r["rows_per_request"]
cpu = r["server_cpu_us_per_request"]
print("%8.0f req/s  p50 %6.0f us  p99 %7.0f us  CPU %8.2f us/req%s  errors %d" % (r["requests_per_second"], r["latency_us"]["p50"], r["latency_us"]["p99"], cpu, "  %.3f us/row" % (cpu / rows) if rows > 1 else "", r["errors"]))' "$out")"
  done
}
to=(--addr 127.0.0.1:19043)
for cell in $cells; do
  case $cell in
  read) start periodic 1; bench "ilion load" read "${to[@]}" --keys "$keys" --duration 1s >/dev/null; compact
    bench "ilion read 16x16 compacted" read "${to[@]}" --keys "$keys" --skip-load ;;
  read256) start periodic 1; bench "ilion load" read "${to[@]}" --keys "$keys" --duration 1s >/dev/null; compact
    bench "ilion read 256x1 compacted" read "${to[@]}" --keys "$keys" --connections 256 --inflight 1 --skip-load ;;
  fresh) start periodic 1; bench "ilion read 16x16 fresh" read "${to[@]}" --keys "$keys" ;;
  write) start periodic 1; bench "ilion write periodic 16x16" write "${to[@]}" --keys 10000000 ;;
  batch) start batch 2; bench "ilion write batch 16x16" write "${to[@]}" --keys 10000000 ;;
  scan) start periodic 1; bench "ilion load" scan "${to[@]}" --keys 300 --row-size 200 --duration 1s >/dev/null; compact
    bench "ilion scan 1000 rows 4x2" scan "${to[@]}" --connections 4 --inflight 2 --keys 300 --row-size 200 --skip-load ;;
  update) start periodic 1; bench "ilion update 1 of 5 16x16" update "${to[@]}" --keys "$keys" ;;
  *) echo "unknown cell $cell" >&2; exit 2 ;;
  esac
done
stop
if [ -n "${CASSANDRA:-}" ]; then
  server=$(taskset -c 0 test/perf/cassandra.sh "$CASSANDRA" 19142)
  cass=(--addr 127.0.0.1:19142 --server-pid "$server" --warmup 20s)
  bench "cassandra write periodic" write "${cass[@]}" --keys 10000000
  bench "cassandra read 16x16" read "${cass[@]}" --keys "$keys"
  bench "cassandra scan 1000 rows 4x2" scan "${cass[@]}" --connections 4 --inflight 2 --keys 300 --row-size 200
fi
