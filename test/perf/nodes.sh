# Starts the nodes for the benchmark scripts in this folder. Source this file after `set -euo pipefail`.
#
# Nodes listen on 127.BASE.0.1 and following addresses of this machine (BASE is 9 by default), CQL on port 9042. Except on Linux, these addresses
# must be created first. Nodes store their data in $work, which is removed at the end. ILION names a binary to measure instead of the one built
# here; the load generator is always built here. $config is the configuration file. CONFIG replaces its content, for a binary that does not know the
# keys below; an empty CONFIG omits it. $pin is the command with arguments that starts each node.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
base=127.${BASE:-9}.0
CGO_ENABLED=${CGO_ENABLED:-0} go build -o "$work/ilion" ./cmd/ilion
ilion=${ILION:-$work/ilion}
config=$work/config.yaml
printf "${CONFIG-splits:\n  request_units_per_second: -1\n}" >"$config" # no automatic splits
export ILION_START_JOIN_SECRET_FILE=$work/join-secret
pin=(env)
pids=()
stop() {
  [ ${#pids[@]} = 0 ] || { kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true; }
  pids=()
  rm -rf "$work"/n*
}
trap 'stop; rm -rf "$work"' EXIT

node() { # number, arguments of start...
  local i=$1; shift
  mkdir -p "$work/n$i"
  "${pin[@]}" "$ilion" start --data "$work/n$i/data" --config "$config" --cql "$base.$i:9042" --http "$base.$i:8080" --log-level warn "$@" >"$work/n$i/out" 2>"$work/n$i/log" &
  pids+=($!)
  for _ in $(seq 100); do grep -qs ready "$work/n$i/out" && return; sleep 0.1; done
  cat "$work/n$i/log" >&2; exit 1
}
cluster() { # arguments of start...
  stop
  node 1 --internal "$base.1:7000" --bootstrap "$@"
  for n in 2 3 4; do node "$n" --internal "$base.$n:7000" --join "$base.1:7000" "$@"; done
  for _ in $(seq 300); do
    "$ilion" status --http "$base.1:8080" 2>/dev/null | grep -q 'No problems' && [ "$(voters)" = 4 ] && return
    sleep 0.1
  done
  echo "the cluster did not become healthy" >&2; exit 1
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
post() { # data directory, address, path: older binaries without a socket accept orders at the address
  curl -fsS --unix-socket "$1/admin.sock" -X POST "http://localhost$3" >/dev/null 2>&1 || curl -fsS -X POST "http://$2$3" >/dev/null
}
bench() { # node, arguments of bench...
  local i=$1; shift
  "${at[@]}" "$work/ilion" bench "$@" --addr "$base.$i:9042" --server-pid "$(IFS=,; echo "${pids[*]}")" --json 2>>"$work/progress" ||
    { tail -n 5 "$work/progress" "$work"/n*/log >&2; return 1; }
}
at=(env) # the command that starts the load generator
