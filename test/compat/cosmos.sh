#!/usr/bin/env bash
# Runs CosmosApp.java against a node that serves containers over TLS at 127.0.78.1:8081, because the SDK for Java requires TLS:
# cosmos.sh ILION JARS FOLDER
set -euo pipefail
ilion=$1 jars=$2 work=$3/cosmos-java
rm -rf "$work"
mkdir -p "$work"
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ilion -addext subjectAltName=IP:127.0.78.1 \
  -keyout "$work/server.key" -out "$work/server.pem" 2>"$work/openssl.log"
chmod 600 "$work/server.key"
keytool -importcert -noprompt -alias ilion -file "$work/server.pem" -keystore "$work/trust.jks" -storepass changeit 2>"$work/keytool.log"
printf 'tls: {cert: %s, key: %s}\nmemory: {budget: 256MiB}\n' "$work/server.pem" "$work/server.key" >"$work/ilion.yaml"
"$ilion" start --config "$work/ilion.yaml" --data "$work/data" --cql 127.0.78.1:9042 --rest 127.0.78.1:8081 --http off \
  >"$work/server.out" 2>"$work/server.log" &
server=$!
trap 'kill $server 2>/dev/null; wait' EXIT
key() { "$ilion" keys --data "$work/data" | sed -n 's/^primary *//p'; }
for _ in $(seq 300); do [ -n "$(key 2>/dev/null)" ] && break; sleep 0.1; done
java -Djavax.net.ssl.trustStore="$work/trust.jks" -Djavax.net.ssl.trustStorePassword=changeit -Dio.netty.handler.ssl.noOpenSsl=true \
  -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$jars/*" "$(dirname "$0")/java/CosmosApp.java" https://127.0.78.1:8081/ "$(key)"
