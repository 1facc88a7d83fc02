#!/usr/bin/env bash
# Runs account.py, an application for Azure Cosmos DB, against a cluster of three nodes that accepts account keys over TLS at port 10350 of
# 127.0.77.1 to 127.0.77.3: account.sh ILION PYTHON FOLDER
set -euo pipefail
ilion=$1 python=$2 work=$3/account
rm -rf "$work"
mkdir -p "$work"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ilion \
  -addext subjectAltName=IP:127.0.77.1,IP:127.0.77.2,IP:127.0.77.3 -keyout "$work/server.key" -out "$work/server.pem" 2>"$work/openssl.log"
chmod 600 "$work/server.key"
printf 'tls: {cert: %s, key: %s}\nmemory: {budget: 256MiB}\n' "$work/server.pem" "$work/server.key" >"$work/ilion.yaml"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait' EXIT
for i in 1 2 3; do
  how=(--bootstrap)
  [ "$i" = 1 ] || how=(--join 127.0.77.1:7000 --join-secret-file "$work/1/join-secret")
  "$ilion" start --config "$work/ilion.yaml" --data "$work/$i" --cql "127.0.77.$i:9042" --cosmos-cql "127.0.77.$i:10350" \
    --internal "127.0.77.$i:7000" --http off --rest off "${how[@]}" >"$work/$i.out" 2>"$work/$i.log" &
  pids+=($!)
  for _ in $(seq 600); do grep -q ready "$work/$i.out" && break; sleep 0.1; done
done
key() { "$ilion" keys --data "$work/1" | sed -n "s/^$1 *//p"; }
for _ in $(seq 300); do [ -n "$(key primary 2>/dev/null)" ] && break; sleep 0.1; done
"$python" "$(dirname "$0")/account.py" 127.0.77.1 10350 "$(key primary)" "$(key read-only)" "$work/server.pem" 3
