#!/usr/bin/env bash
# Measures overload for docs/benchmarks/overload.md: test/perf/overload.sh [CELL...]
#
# Servers are pinned to processor 0, the load generator to processor 1. Each cell alternates between two loads. The closed loop measures the maximum
# throughput with 16 connections and 64 requests in flight each. The open loop requests TIMES (default 3) that throughput, with up to INFLIGHT
# (default 4096) requests in flight on each of 16 connections. The script measures the goodput, the latency, the number of rejections, and the memory.
# Each open loop is compared with the mean of the closed loops before and after it, because a store becomes slower as it fills. The script prints
# medians.
#
# Cells: read write mixed (a standalone node), cread cwrite cmixed (four nodes, LOCAL_QUORUM, on the leader), oread owrite omixed (the same on a node
# that leads nothing). Default: all. CONNECTIONS sets the number of connections of the open loop (default 16).
# DURATION (default 5s) is the length of each measurement, ROUNDS (default 3) the number of repetitions, and BUDGET (default 1GiB) the memory budget
# of a node. nodes.sh describes BASE and ILION.
set -euo pipefail
. "$(dirname "$0")/nodes.sh"
cells=${*:-read write mixed cread cwrite cmixed oread owrite omixed}
duration=${DURATION:-5s} rounds=${ROUNDS:-3} times=${TIMES:-3} connections=${CONNECTIONS:-16}
printf 'memory:\n  budget: %s\n' "${BUDGET:-1GiB}" >>"$config"
pin=(taskset -c 0) at=(taskset -c 1)

best() { load --duration "$duration" --connections 16 --inflight "${CLOSED:-64}" >>"$work/samples"; tail -1 "$work/samples"; }
load() { bench "$i" "$w" --keys 20000 --skip-load "${args[@]}" "$@" | tr -d '\n'; echo; }
measure() { # label, workload, node, arguments of bench...
  local label=$1 w=$2 i=$3 rate b; shift 3
  args=("$@")
  bench "$i" "$w" --keys 20000 --duration "${FILL:-4s}" --warmup 0s "${args[@]}" >/dev/null
  : >"$work/samples"
  b=$(best)
  for _ in $(seq "$rounds"); do
    rate=$(python3 -c 'import json,sys; print(int(json.loads(sys.argv[1])["requests_per_second"]*float(sys.argv[2])))' "$b" "$times")
    load --duration "$duration" --warmup "${WARMUP:-3s}" --connections "$connections" --inflight "$((${INFLIGHT:-4096} * 16 / connections))" \
      --rate "$rate" >>"$work/samples"
    b=$(best)
  done
  python3 - "$label" "$times" "$(peak)" "$work/samples" <<'P'
import json, statistics, sys
label, times, peak, runs = sys.argv[1], sys.argv[2], sys.argv[3], [json.loads(l) for l in open(sys.argv[4])]
rows = []
for i in range(1, len(runs), 2):
    o, x, near = runs[i], runs[i]["open"], (runs[i - 1], runs[i + 1])
    mean = lambda f: sum(f(b) for b in near) / 2
    done, p99 = mean(lambda b: b["requests_per_second"]), mean(lambda b: b["latency_us"]["p99"] / 1e3)
    good, late = x["goodput_per_second"], o["latency_us"]["p99"] / 1e3
    other = max(0, o["requests"] - round(good * o["seconds"]) - x["refused"])
    rows.append((done, p99, x["rate"], good, 100 * good / done, o["latency_us"]["p50"] / 1e3, late, late / p99, x["refused"] / o["seconds"],
        x["refusal_latency_us"]["p99"] / 1e3, x["unsent"] / o["seconds"], other))
print("%-7s best %7.0f/s p99 %6.1f ms | due %7.0f/s, good %7.0f/s = %3.0f %%, p50 %6.1f p99 %7.1f ms = %4.1f times, refused %7.0f/s p99 %6.1f ms, "
    "not sent %5.0f/s, other errors %d | VmHWM %s MiB" % ((label,) + tuple(statistics.median(c) for c in zip(*rows)) + (peak,)))
print("        goodput of each: %s; p99: %s" % (" ".join("%.0f" % r[4] for r in rows), " ".join("%.1f" % r[7] for r in rows)))
P
}
peak() { for p in "${pids[@]}"; do awk '/VmHWM/ {print int($2/1024)}' "/proc/$p/status"; done | sort -n | tail -1; }
for cell in $cells; do
  stop
  case $cell in
  read | mixed) node 1 --commit periodic; measure "$cell" "$cell" 1 ;;
  write) node 1 --commit batch; measure "$cell" write 1 ;;
  [co]read | [co]write | [co]mixed)
    cluster
    bench 1 write --keys 20000 --duration 1s --warmup 0s >/dev/null
    l=$(leader)
    [ "${cell:0:1}" = c ] || l=$((l % 4 + 1))
    measure "$cell" "${cell:1}" "$l" --consistency LOCAL_QUORUM ;;
  *) echo "unknown cell $cell" >&2; exit 2 ;;
  esac
done
