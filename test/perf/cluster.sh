#!/usr/bin/env bash
# The figures of a cluster of four in docs/performance.md: test/perf/cluster.sh [CELL...]
#
# Four nodes run on 127.BASE.0.1 to .4 of this machine (BASE is 9; elsewhere than on Linux these addresses have to be made first) and share its
# processors with the load generator: requests per second say little beside the CPU time per request, summed over the four processes. Cells:
#
#   write128 write1k     128 B and 1 KB rows, one physical partition, 128 in flight, at the node that leads it, then at one that does not
#   read                 QUORUM at the leader, LOCAL_ONE at a follower, QUORUM at a follower, which is a hop; not compacted, then compacted
#   partitions           128 B rows in 256 physical partitions, 512 in flight, at any node
#   split                1 GB in one partition that is split again and again under a mixed load: how long a split takes, and the latencies of
#                        a measurement without one and of the next with one; not among the default cells
#   alone                write128, write1k and read on one node that stands alone, with batch commits, for the ratio
#
# DURATION (default 5s) is the length of each measurement, ROUNDS (default 3) how often each is taken; medians are printed. ILION names a
# program other than the one built here, to compare.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
cells=${*:-write128 write1k read partitions alone}
duration=${DURATION:-5s} rounds=${ROUNDS:-3} base=127.${BASE:-9}.0
ilion=${ILION:-$work/ilion}
printf 'splits:\n  request_units_per_second: -1\n' >"$work/config.yaml" # partitions stay as a cell has them
CGO_ENABLED=${CGO_ENABLED:-0} go build -o "$work/ilion" ./cmd/ilion
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
  "$ilion" start --data "$work/n$i/data" --config "${config:-$work/config.yaml}" --cql "$base.$i:9042" --http "$base.$i:8080" --log-level warn "$@" >"$work/n$i/out" 2>"$work/n$i/log" &
  pids+=($!)
  for _ in $(seq 100); do grep -qs ready "$work/n$i/out" && return; sleep 0.1; done
  cat "$work/n$i/log"; exit 1
}
cluster() { # arguments of start...
  stop
  node 1 --internal "$base.1:7000" --bootstrap "$@"
  for n in 2 3 4; do node "$n" --internal "$base.$n:7000" --join "$base.1:7000" "$@"; done
  for _ in $(seq 300); do
    "$ilion" status --http "$base.1:8080" 2>/dev/null | grep -q 'All is well' && [ "$(voters)" = 4 ] && return
    sleep 0.1
  done
  echo "the cluster does not get well" >&2; exit 1
}
status() { curl -fsS "http://$base.1:8080/status"; }
voters() { status | python3 -c '
import json, sys
print(min(len([r for r in p["replicas"] if r["state"] == "voter"]) for t in json.load(sys.stdin)["tables"] for p in t["physical_partitions"]))'; }
leader() { status | python3 -c '
import json, sys
s = json.load(sys.stdin)
of = {n["id"]: n["cql"].split(":")[0].split(".")[-1] for n in s["nodes"]}
print(next(of[t["physical_partitions"][0]["leader"]] for t in s["tables"] if t["name"] == "ilion_bench.rows"))'; }
compact() { for i in $(seq ${#pids[@]}); do post "$work/n$i/data" "$base.$i:8080" /compact; done; }
post() { # data directory, address, path: programs from before the socket take orders at the address
  curl -fsS --unix-socket "$1/admin.sock" -X POST "http://localhost$3" >/dev/null 2>&1 || curl -fsS -X POST "http://$2$3" >/dev/null
}

bench() { # node, arguments...
  local i=$1; shift
  "$work/ilion" bench "$@" --addr "$base.$i:9042" --server-pid "$(IFS=,; echo "${pids[*]}")" --json 2>>"$work/progress"
}
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

table() { # makes the table of the benchmark, and keeps its rows apart from those measured
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
    { cat "$work/config.yaml"; echo 'initial_partitions: 256'; } >"$work/many.yaml"
    config=$work/many.yaml
    cluster
    config=
    table; sleep 5
    for _ in $(seq "$rounds"); do
      sample "write 128 B, 256 partitions, any node" 1 write --connections 8 --inflight 64 "${small[@]}" --keys 10000000
    done ;;
  split) splits ;;
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
