#!/usr/bin/env bash
# Starts an Apache Cassandra from Maven Central on loopback, to compare it with Ilion using the same tool:
#   test/perf/cassandra.sh DIR [PORT]   prints the process ID when Cassandra serves requests; needs mvn and Java 17
set -euo pipefail
dir=$(mkdir -p "$1" && cd "$1" && pwd)
port=${2:-19142}
version=5.0.5
java=${JAVA17:-$(ls -d /usr/lib/jvm/java-17-openjdk-*/bin/java 2>/dev/null | head -n 1)}
[ -x "$java" ] || { echo "Java 17 not found: set JAVA17 to the path of its java binary" >&2; exit 1; }
if [ ! -d "$dir/lib" ]; then
  cat >"$dir/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencies><dependency><groupId>org.apache.cassandra</groupId><artifactId>cassandra-all</artifactId><version>$version</version></dependency></dependencies></project>
POM
  (cd "$dir" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib >&2)
fi
rm -rf "$dir/data" && mkdir -p "$dir/data" "$dir/conf"
commit=${COMMIT:-periodic}
cat >"$dir/conf/cassandra.yaml" <<YAML
cluster_name: compare
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: $commit
$([ "$commit" = periodic ] && echo "commitlog_sync_period: 10000ms")
commitlog_directory: $dir/data/commitlog
data_file_directories: [$dir/data/data]
saved_caches_directory: $dir/data/saved_caches
hints_directory: $dir/data/hints
cdc_raw_directory: $dir/data/cdc_raw
endpoint_snitch: SimpleSnitch
seed_provider: [{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: "127.0.0.1:17000"}]}]
listen_address: 127.0.0.1
rpc_address: 127.0.0.1
storage_port: 17000
native_transport_port: $port
start_native_transport: true
auto_snapshot: false
materialized_views_enabled: true
YAML
cat >"$dir/conf/logback.xml" <<XML
<configuration><appender name="F" class="ch.qos.logback.core.FileAppender"><file>$dir/data/system.log</file><encoder><pattern>%date %level %msg%n</pattern></encoder></appender>
<root level="INFO"><appender-ref ref="F"/></root></configuration>
XML
opens() { for p in "$@"; do printf -- '--add-opens=%s=ALL-UNNAMED --add-exports=%s=ALL-UNNAMED ' "$p" "$p"; done; }
# shellcheck disable=SC2046
"$java" "-Xms${HEAP:-4G}" "-Xmx${HEAP:-4G}" -XX:+UseG1GC \
  $(opens java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.lang.ref java.base/java.lang.reflect java.base/java.math \
    java.base/java.net java.base/java.nio java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic java.base/jdk.internal.loader \
    java.base/jdk.internal.math java.base/jdk.internal.misc java.base/jdk.internal.module java.base/jdk.internal.ref java.base/jdk.internal.reflect \
    java.base/jdk.internal.util.jar java.base/sun.nio.ch java.management.rmi/com.sun.jmx.remote.internal.rmi java.management/com.sun.jmx.remote.security \
    java.rmi/sun.rmi.registry java.rmi/sun.rmi.server java.rmi/sun.rmi.transport.tcp java.sql/java.sql jdk.management/com.sun.management.internal) \
  -Djdk.attach.allowAttachSelf=true -Dcassandra.storagedir="$dir/data" -Dcassandra.config="file://$dir/conf/cassandra.yaml" \
  -Dlogback.configurationFile="$dir/conf/logback.xml" -Dcassandra.libjemalloc=- -Dcassandra.jmx.local.port=17199 -Dio.netty.tryReflectionSetAccessible=true \
  -cp "$dir/conf:$dir/lib/*" org.apache.cassandra.service.CassandraDaemon </dev/null >"$dir/data/stdout.log" 2>&1 &
pid=$!
for _ in $(seq 180); do
  if grep -q "Starting listening for CQL clients" "$dir/data/system.log" 2>/dev/null; then echo "$pid"; exit 0; fi
  kill -0 "$pid" 2>/dev/null || { tail -n 20 "$dir/data/stdout.log" "$dir/data/system.log" >&2; exit 1; }
  sleep 1
done
echo "Cassandra did not start within three minutes, see $dir/data/system.log" >&2
exit 1
