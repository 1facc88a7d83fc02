#!/usr/bin/env bash
# Runs real clients against a fresh node, or with NODES=4 against a fresh cluster of four of which they are told one: the Python, Node.js and
# Java drivers and cqlsh, each installed from its registry into a scratch folder (COMPAT_DIR, or a temporary one; PORT, or 19042). What is
# not to be had is reported as skipped. (The Go driver is part of `go test ./...`.)
set -uo pipefail
cd "$(dirname "$0")/../.."
work=${COMPAT_DIR:-$(mktemp -d)}
port=${PORT:-19042}
nodes=${NODES:-1}
mkdir -p "$work"
go build -o "$work/ilion" ./cmd/ilion || exit 1
rm -rf "$work/data"
if [ "$nodes" = 1 ]; then
  "$work/ilion" start --data "$work/data" --cql "127.0.0.1:$port" --http off --rest off >"$work/server.out" 2>"$work/server.log" &
  ready=.
else
  "$work/ilion" demo --nodes "$nodes" --data "$work/data" --port "$port" >"$work/server.out" 2>"$work/server.log" &
  ready="cluster is ready"
fi
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null' EXIT
for _ in $(seq 600); do grep -q "$ready" "$work/server.out" && break; sleep 0.1; done

passed=0 failed=0 skipped=0
check() { # name, command...
  name=$1; shift
  if "$@" >"$work/$name.log" 2>&1; then
    echo "ok      $name: $(tail -n 1 "$work/$name.log")"; passed=$((passed + 1))
  else
    echo "FAILED  $name:"; tail -n 40 "$work/$name.log"; failed=$((failed + 1))
  fi
}
skip() { echo "skipped $1: $2"; skipped=$((skipped + 1)); }

if python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 && "$work/venv/bin/pip" install -q cassandra-driver lz4 >>"$work/venv.log" 2>&1; then
  check python-v4 "$work/venv/bin/python" test/compat/python_driver.py 127.0.0.1 "$port" 4 "$nodes"
  check python-v5 "$work/venv/bin/python" test/compat/python_driver.py 127.0.0.1 "$port" 5 "$nodes"
else
  skip python "cassandra-driver could not be installed, see $work/venv.log"
fi
if "$work/venv/bin/pip" install -q cqlsh >>"$work/venv.log" 2>&1; then
  check cqlsh bash test/compat/cqlsh.sh "$work/venv/bin/cqlsh" "127.0.0.$nodes" "$port"
else
  skip cqlsh "it could not be installed, see $work/venv.log"
fi
if command -v npm >/dev/null && npm install --silent --prefix "$work/node" cassandra-driver >"$work/npm.log" 2>&1; then
  check node env NODE_PATH="$work/node/node_modules" node test/compat/node_driver.js 127.0.0.1 "$port" "$nodes"
else
  skip node "npm or cassandra-driver is missing, see $work/npm.log"
fi
if command -v mvn >/dev/null && mvn -q -B -f test/compat/java dependency:copy-dependencies -DoutputDirectory="$work/java" >"$work/mvn.log" 2>&1; then
  check java java -cp "$work/java/*" test/compat/java/JavaDriver.java 127.0.0.1 "$port"
else
  skip java "mvn or java-driver-core is missing, see $work/mvn.log"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
