#!/usr/bin/env bash
# Overload, for docs/performance.md: test/perf/overload.sh [CELL...]
#
# Servers are pinned to processor 0, the load generator to processor 1. Each cell first takes what the machine does at best: a closed loop of
# 16 connections with 64 requests in flight each. Then an open loop asks for TIMES (default 3) as much, with up to INFLIGHT (default 4096)
# requests under way on each of 16 connections: how much is answered well, how late, how many are refused, and what memory is taken.
#
# Cells: read write mixed scan (one node that stands alone), cread cwrite cmixed (four nodes, LOCAL_QUORUM, at the leader). Default: all.
# DURATION (default 5s) is the length of each measurement, ROUNDS (default 1) how often each is taken. ILION names a program other than the
# one built here, to compare; BASE (default 9) is the block 127.BASE.0 of addresses, BUDGET (default 1GiB) the memory budget of a node.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
cells=${*:-read write mixed scan cread cwrite cmixed}
duration=${DURATION:-5s} rounds=${ROUNDS:-1} base=127.${BASE:-9}.0 times=${TIMES:-3}
CGO_ENABLED=${CGO_ENABLED:-0} go build -o "$work/ilion" ./cmd/ilion
ilion=${ILION:-$work/ilion}
printf 'splits:\n  request_units_per_second: -1\nmemory:\n  budget: %s\n' "${BUDGET:-1GiB}" >"$work/config.yaml"
pids=()
stop() {
  [ ${#pids[@]} = 0 ] || { kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true; }
  pids=()
  rm -rf "$work"/n*
}
export ILION_JOIN_SECRET_FILE=$work/join-secret
trap 'stop; rm -rf "$work"' EXIT

node() { # number, arguments of start...
  local i=$1; shift
  mkdir -p "$work/n$i"
  GOMAXPROCS=1 taskset -c 0 "$ilion" start --data "$work/n$i/data" --config "$work/config.yaml" --cql "$base.$i:9042" --http "$base.$i:8080" --log-level warn "$@" >"$work/n$i/out" 2>"$work/n$i/log" &
  pids+=($!)
  for _ in $(seq 100); do grep -qs ready "$work/n$i/out" && return; sleep 0.1; done
  cat "$work/n$i/log"; exit 1
}
cluster() {
  node 1 --internal "$base.1:7000" --bootstrap
  for n in 2 3 4; do node "$n" --internal "$base.$n:7000" --join "$base.1:7000"; done
  for _ in $(seq 300); do
    "$ilion" status --http "$base.1:8080" 2>/dev/null | grep -q 'All is well' && return
    sleep 0.1
  done
  echo "the cluster does not get well" >&2; exit 1
}
leader() { curl -fsS "http://$base.1:8080/status" | python3 -c '
import json, sys
s = json.load(sys.stdin)
of = {n["id"]: n["cql"].split(":")[0].split(".")[-1] for n in s["nodes"]}
print(next(of[t["physical_partitions"][0]["leader"]] for t in s["tables"] if t["name"] == "ilion_bench.rows"))'; }
load() { # workload, node, arguments of bench...
  local w=$1 i=$2; shift 2
  taskset -c 1 "$work/ilion" bench "$w" --addr "$base.$i:9042" --server-pid "$(IFS=,; echo "${pids[*]}")" --keys 20000 --json "$@" 2>>"$work/progress"
}
measure() { # label, workload, node, arguments of bench...
  local label=$1 w=$2 i=$3; shift 3
  load "$w" "$i" --duration 1s --warmup 0s "$@" >/dev/null
  for _ in $(seq "$rounds"); do
    best=$(load "$w" "$i" --skip-load --duration "$duration" --connections 16 --inflight "${CLOSED:-64}" "$@")
    rate=$(python3 -c 'import json,sys; print(int(json.loads(sys.argv[1])["requests_per_second"]*float(sys.argv[2])))' "$best" "$times")
    over=$(load "$w" "$i" --skip-load --duration "$duration" --warmup "${WARMUP:-3s}" --connections 16 --inflight "${INFLIGHT:-4096}" --rate "$rate" "$@")
    peak=0
    for p in "${pids[@]}"; do peak=$(($(awk '/VmHWM/ {print int($2/1024)}' "/proc/$p/status") > peak ? $(awk '/VmHWM/ {print int($2/1024)}' "/proc/$p/status") : peak)); done
    python3 -c '
import json, sys
label, peak, b, o = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
x = o["open"]
print("%-8s best %7.0f/s p50 %6.1f p99 %6.1f ms | %.1fx: due %7d/s, good %7.0f/s = %3.0f %%, p50 %6.1f p99 %7.1f ms = %4.1f times, refused %7.0f/s p99 %.1f ms, not sent %7.0f/s, other errors %d | VmHWM %s MiB" % (
    label, b["requests_per_second"], b["latency_us"]["p50"]/1e3, b["latency_us"]["p99"]/1e3, float(sys.argv[5]), x["rate"], x["goodput_per_second"],
    100*x["goodput_per_second"]/b["requests_per_second"], o["latency_us"]["p50"]/1e3, o["latency_us"]["p99"]/1e3,
    o["latency_us"]["p99"]/b["latency_us"]["p99"], x["refused"]/o["seconds"], x["refusal_latency_us"]["p99"]/1e3, x["unsent"]/o["seconds"],
    max(0, o["requests"] - round(x["goodput_per_second"]*o["seconds"]) - x["refused"]), peak))
if o.get("first_error"): print("         first error:", o["first_error"])' "$label" "$peak" "$best" "$over" "$times"
  done
}
for cell in $cells; do
  stop
  case $cell in
  read | mixed) node 1 --commit periodic; measure "$cell" "$cell" 1 ;;
  write) node 1 --commit batch; measure "$cell" write 1 ;;
  scan) node 1 --commit periodic; measure scan scan 1 --keys 100 --row-size 200 ;;
  cread | cwrite | cmixed) cluster; load write 1 --duration 1s >/dev/null; measure "$cell" "${cell#c}" "$(leader)" --consistency LOCAL_QUORUM ;;
  *) echo "unknown cell $cell" >&2; exit 2 ;;
  esac
done
