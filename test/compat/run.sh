#!/usr/bin/env bash
# Runs real clients against a new node, or with NODES=4 against a new cluster of four nodes, of which the clients get one address. The clients are
# the Python, Rust, Node.js, and Java drivers with their object mappers, web frameworks on top of them, cqlsh, and the SDKs of containers. Each is installed from its
# registry into COMPAT_DIR (default: a temporary folder). PORT is the CQL port (default 19042). RELEASE=4.0 or 5.0 makes a single node behave like
# that release of Cassandra. With COPY=1, cqlsh also copies 100,000 rows. Clients that cannot be installed are reported as skipped. (The Go driver
# is part of the integration tests.)
set -uo pipefail
cd "$(dirname "$0")/../.."
work=${COMPAT_DIR:-$(mktemp -d)}
port=${PORT:-19042}
nodes=${NODES:-1}
rest=$((port - 9042 + 8081))
mkdir -p "$work"
go build -o "$work/ilion" ./cmd/ilion || exit 1
rm -rf "$work/data"
echo "user_defined_functions_enabled: true" >"$work/ilion.yaml"
[ -z "${RELEASE:-}" ] || echo "compatibility: \"$RELEASE\"" >>"$work/ilion.yaml"
if [ "$nodes" = 1 ]; then
  "$work/ilion" start --config "$work/ilion.yaml" --data "$work/data" --cql "127.0.0.1:$port" --http off --rest "127.0.0.1:$rest" >"$work/server.out" 2>"$work/server.log" &
  ready=.
  first=$work/data
else
  "$work/ilion" demo --nodes "$nodes" --data "$work/data" --port "$port" >"$work/server.out" 2>"$work/server.log" &
  ready="cluster is ready"
  first=$work/data/node1
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
  if command -v openssl >/dev/null; then
    check account bash test/compat/account.sh "$work/ilion" "$work/venv/bin/python" "$work"
  else
    skip account "openssl is missing"
  fi
else
  skip python "cassandra-driver could not be installed, see $work/venv.log"
fi
key=$("$work/ilion" account keys --data "$first" | sed -n 's/^primary *//p')
if "$work/venv/bin/pip" install -q azure-cosmos >>"$work/venv.log" 2>&1; then
  check hybrid-python "$work/venv/bin/python" test/rest/hybrid.py "http://127.0.0.$nodes:$rest" "$key"
else
  skip hybrid-python "azure-cosmos could not be installed, see $work/venv.log"
fi
if npm install --silent --no-audit --no-fund --prefix "$work/cosmos-js" @azure/cosmos >"$work/npm-cosmos.log" 2>&1; then
  check hybrid-js env NODE_PATH="$work/cosmos-js/node_modules" node test/rest/hybrid.js "http://127.0.0.$nodes:$rest" "$key"
else
  skip hybrid-js "@azure/cosmos could not be installed, see $work/npm-cosmos.log"
fi
if "$work/venv/bin/pip" install -q cqlsh >>"$work/venv.log" 2>&1; then
  check cqlsh bash test/compat/cqlsh.sh "$work/venv/bin/cqlsh" "127.0.0.$nodes" "$port"
  [ -z "${COPY:-}" ] || check copy bash test/compat/apps/copy.sh "$work/venv/bin/cqlsh" "127.0.0.$nodes" "$port"
else
  skip cqlsh "it could not be installed, see $work/venv.log"
fi
if "$work/venv/bin/pip" install -q django-cassandra-engine flask >>"$work/venv.log" 2>&1 &&
  "$work/venv/bin/pip" install -q --no-deps Flask-CQLAlchemy >>"$work/venv.log" 2>&1; then
  for app in cqlengine django flask; do
    check "$app" "$work/venv/bin/python" "test/compat/apps/${app}_app.py" 127.0.0.1 "$port"
  done
else
  skip cqlengine-django-flask "the frameworks could not be installed, see $work/venv.log"
fi
rust() { # compiling the driver takes minutes; COMPAT_DIR keeps the result
  mkdir -p "$work/rust/src" && cp test/compat/rust_driver.rs "$work/rust/src/main.rs" && cp test/compat/rust_driver.toml "$work/rust/Cargo.toml" &&
    cargo build --quiet --manifest-path "$work/rust/Cargo.toml" >"$work/cargo.log" 2>&1
}
if command -v cargo >/dev/null && rust; then
  check rust "$work/rust/target/debug/rust-driver" "127.0.0.1:$port" "$nodes"
else
  skip rust "cargo or scylla is missing, see $work/cargo.log"
fi
if command -v npm >/dev/null && npm install --silent --prefix "$work/node" cassandra-driver >"$work/npm.log" 2>&1; then
  check node env NODE_PATH="$work/node/node_modules" node test/compat/node_driver.js 127.0.0.1 "$port" "$nodes"
  npm install --silent --prefix "$work/node" express-cassandra >>"$work/npm.log" 2>&1
  check node-mapper env NODE_PATH="$work/node/node_modules" node test/compat/apps/mapper_app.js 127.0.0.1 "$port"
else
  skip node "npm or cassandra-driver is missing, see $work/npm.log"
fi
jars() { # name, pom
  command -v mvn >/dev/null && mvn -q -B -f "test/compat/java/$2" dependency:copy-dependencies -DoutputDirectory="$work/$1" >"$work/mvn-$1.log" 2>&1
}
compiled() { # name, class
  mkdir -p "$work/$1-classes"
  javac -nowarn -parameters -cp "$work/$1/*" -d "$work/$1-classes" "test/compat/java/$2.java" &&
    java -cp "$work/$1/*:$work/$1-classes" "compat.$2" 127.0.0.1 "$port"
}
if jars java pom.xml; then
  check java java -cp "$work/java/*" test/compat/java/JavaDriver.java 127.0.0.1 "$port"
  check java-mapper compiled java MapperApp
else
  skip java "mvn or java-driver-core is missing, see $work/mvn-java.log"
fi
if jars spring spring.xml; then
  check spring compiled spring SpringApp
else
  skip spring "mvn or spring-data-cassandra is missing, see $work/mvn-spring.log"
fi
if jars cosmos cosmos.xml && command -v openssl >/dev/null; then
  check cosmos-java bash test/compat/cosmos.sh "$work/ilion" "$work/cosmos" "$work"
else
  skip cosmos-java "mvn, azure-cosmos or openssl is missing, see $work/mvn-cosmos.log"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
