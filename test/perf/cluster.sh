#!/usr/bin/env bash
# Measures the figures of a cluster of four nodes in docs/benchmarks/performance.md: test/perf/cluster.sh [CELL...]
#
# Four nodes share this machine's processors with the load generator. The relevant result is therefore the CPU time per request, summed over the four
# processes, rather than the number of requests per second. Cells:
#
#   write128 write1k     128 B and 1 KB rows, one physical partition, 128 requests in flight, on its leader, then on another node
#   read                 QUORUM on the leader, LOCAL_ONE on a follower, QUORUM on a follower, which adds a hop; uncompacted, then compacted
#   partitions           128 B rows in 256 physical partitions, 512 requests in flight, on any node
#   split                1 GB in one partition that is split repeatedly under a mixed load: the duration of a split, and the latencies of a
#                        measurement without a split and of the next one with a split; not a default cell
#   large                GB gigabytes (default 30) in one partition of a standalone node; ZEROS percent (default 75) of the data are zeros, so that
#                        it takes a quarter on disk: the duration of a split from the order to the end; NODES=4 uses a cluster; not a default cell
#   merge                a partition of 20,000 rows that is split and merged MERGES times (default 12) under 500 mixed requests per second: the
#                        pauses according to the history; not a default cell
#   alone                write128, write1k, and read on a standalone node with batch commits, for comparison
#
# DURATION (default 5s) is the length of each measurement, ROUNDS (default 3) the number of repetitions. The script prints medians. nodes.sh describes
# BASE and ILION.
set -euo pipefail
. "$(dirname "$0")/nodes.sh"
cells=${*:-write128 write1k read partitions alone}
duration=${DURATION:-5s} rounds=${ROUNDS:-3}

sample() { # label, node, arguments...
  local label=$1; shift
  printf '%s\t%s\n' "$label" "$(bench "$@" --skip-load --duration "$duration" --warmup 1s)" >>"$work/samples"
}
report() {
  python3 - "$work/samples" <<'P'
import json, statistics, sys
cells = {}
for line in open(sys.argv[1]):
    label, text = line.rstrip("\n").split("\t")
    cells.setdefault(label, []).append(json.loads(text))
for label, runs in cells.items():
    of = lambda f: statistics.median(f(r) for r in runs)
    print("%-52s CPU %7.1f us/req  %8.0f req/s  p50 %6.1f ms  p99 %6.1f ms  errors %d" % (
        label, of(lambda r: r["server_cpu_us_per_request"]), of(lambda r: r["requests_per_second"]), of(lambda r: r["latency_us"]["p50"]) / 1000,
        of(lambda r: r["latency_us"]["p99"]) / 1000, sum(r["errors"] for r in runs)))
P
}
: >"$work/samples"
one=(--connections 4 --inflight 32)
small=(--row-size 125) large=(--row-size 1000)

table() { # creates the benchmark table; its rows are not part of the measurement
  bench 1 write "${one[@]}" "${small[@]}" --keys 1000 --warmup 0s --duration 200ms >/dev/null
}
writes() { # label, sizes...
  local label=$1; shift
  cluster
  table
  l=$(leader) f=$(($(leader) % 4 + 1))
  for _ in $(seq "$rounds"); do
    sample "write $label, at the leader" "$l" write "${one[@]}" "$@" --keys 10000000
    sample "write $label, at another node" "$f" write "${one[@]}" "$@" --keys 10000000
  done
}
reads() { # label
  l=$(leader) f=$(($(leader) % 4 + 1))
  for _ in $(seq "$rounds"); do
    sample "read 1 KB $1, QUORUM at the leader" "$l" read "${one[@]}" "${large[@]}" --keys 100000 --consistency QUORUM
    sample "read 1 KB $1, LOCAL_ONE at a follower" "$f" read "${one[@]}" "${large[@]}" --keys 100000 --consistency LOCAL_ONE
    sample "read 1 KB $1, QUORUM at a follower" "$f" read "${one[@]}" "${large[@]}" --keys 100000 --consistency QUORUM
  done
}
splits() {
  cluster
  bench 1 read "${one[@]}" "${large[@]}" --keys 1000000 --warmup 0s --duration 200ms >/dev/null
  mixed=(mixed --connections 4 --inflight 8 "${large[@]}" --keys 1000000 --consistency QUORUM)
  for round in $(seq "$rounds"); do
    sample "mixed 1 KB at QUORUM, before a split" 1 "${mixed[@]}"
    sample "mixed 1 KB at QUORUM, around a split" 1 "${mixed[@]}" &
    sampling=$!
    sleep 4
    "$ilion" partition split ilion_bench.rows "$(largest)" --data "$work/n1/data" --wait --now >/dev/null
    wait "$sampling"
  done
  "$ilion" history ilion_bench.rows --data "$work/n1/data"
}
largeSplit() {
  local many=$((${GB:-30} * 10000)) order
  if [ "${NODES:-1}" = 1 ]; then stop; node 1; else cluster; fi
  bench 1 read --connections 4 --inflight 4 --row-size 100000 --zeros "${ZEROS:-75}" --keys "$many" --warmup 0s --duration 1s >/dev/null
  for _ in $(seq "$rounds"); do
    order=$(largest)
    "$ilion" partitions ilion_bench.rows --data "$work/n1/data"
    printf 'partition %s: from the order to the end ' "$order"
    ( TIMEFORMAT='%R s'; time "$ilion" partition split ilion_bench.rows "$order" --data "$work/n1/data" --wait --now >/dev/null )
  done
  "$ilion" partitions ilion_bench.rows --data "$work/n1/data"
  "$ilion" history ilion_bench.rows --data "$work/n1/data"
}
merges() {
  cluster
  bench 1 write "${one[@]}" "${large[@]}" --keys 20000 --warmup 0s --duration 200ms >/dev/null
  bench 1 mixed "${one[@]}" "${large[@]}" --keys 20000 --skip-load --consistency QUORUM --rate 500 --warmup 0s --duration 10m >/dev/null 2>&1 &
  local load=$! left right
  for _ in $(seq "${MERGES:-12}"); do
    read -r left _ < <(partitions)
    "$ilion" partition split ilion_bench.rows "$left" --data "$work/n1/data" --wait --now >/dev/null
    read -r left right < <(partitions)
    "$ilion" partition merge ilion_bench.rows "$left" "$right" --data "$work/n1/data" --wait --now >/dev/null
  done
  kill "$load"; wait "$load" || true
  "$ilion" history ilion_bench.rows --data "$work/n1/data" | grep merge
}
partitions() { status | python3 -c '
import json, sys
print(*[p["id"] for t in json.load(sys.stdin)["tables"] if t["name"] == "ilion_bench.rows" for p in t["physical_partitions"]])'; }
largest() { status | python3 -c '
import json, sys
parts = [p for t in json.load(sys.stdin)["tables"] if t["name"] == "ilion_bench.rows" for p in t["physical_partitions"]]
print(max(parts, key=lambda p: p["disk_bytes"])["id"])'; }
for cell in $cells; do
  case $cell in
  write128) writes "128 B" "${small[@]}" ;;
  write1k) writes "1 KB" "${large[@]}" ;;
  read)
    cluster
    bench 1 read "${one[@]}" "${large[@]}" --keys 100000 --warmup 0s --duration 200ms >/dev/null
    reads fresh; compact; reads compacted ;;
  partitions)
    { cat "$config"; echo 'initial_partitions: 256'; } >"$work/many.yaml"
    few=$config config=$work/many.yaml
    cluster
    config=$few
    table; sleep 5
    for _ in $(seq "$rounds"); do
      sample "write 128 B, 256 partitions, any node" 1 write --connections 8 --inflight 64 "${small[@]}" --keys 10000000
    done ;;
  split) splits ;;
  large) largeSplit ;;
  merge) merges ;;
  alone)
    stop; node 1 --commit batch
    table
    for _ in $(seq "$rounds"); do
      sample "alone: write 128 B" 1 write "${one[@]}" "${small[@]}" --keys 10000000
      sample "alone: write 1 KB" 1 write "${one[@]}" "${large[@]}" --keys 10000000
    done
    bench 1 read "${one[@]}" "${large[@]}" --keys 100000 --warmup 0s --duration 200ms >/dev/null
    compact
    for _ in $(seq "$rounds"); do sample "alone: read 1 KB compacted" 1 read "${one[@]}" "${large[@]}" --keys 100000; done ;;
  *) echo "unknown cell $cell" >&2; exit 2 ;;
  esac
done
stop
report
