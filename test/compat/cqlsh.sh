#!/usr/bin/env bash
# What a person types into cqlsh: cqlsh.sh CQLSH HOST PORT
set -uo pipefail
cqlsh=$1 host=$2 port=$3
run() { "$cqlsh" "$host" "$port" --no-color -e "$1" 2>&1; }
want() { # statement, expected text
  out=$(run "$1")
  if ! grep -qF -- "$2" <<<"$out"; then
    printf 'statement: %s\nexpected:  %s\ngot:\n%s\n' "$1" "$2" "$out"
    exit 1
  fi
}
run "DROP KEYSPACE IF EXISTS compat_cqlsh"
want "CREATE KEYSPACE compat_cqlsh WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}; DESCRIBE KEYSPACES" compat_cqlsh
want "CREATE TABLE compat_cqlsh.user (user text, id int, message text, PRIMARY KEY (user, id)); DESCRIBE TABLE compat_cqlsh.user" "PRIMARY KEY (user, id)"
want "insert into compat_cqlsh.user (user,id,message) values ('theo',1,'hello'); insert into compat_cqlsh.user (user,id,message) values ('theo',2,'hello again'); SELECT * FROM compat_cqlsh.user WHERE user='theo'" "hello again"
want "SELECT token(user) FROM compat_cqlsh.user WHERE user='theo' LIMIT 1" "-1457224325554927207"
want "SELECT JSON * FROM compat_cqlsh.user WHERE user='theo' AND id=1" '"message": "hello"'
want "TRACING ON; SELECT * FROM compat_cqlsh.user WHERE user='theo'" "physical partition"
want "CONSISTENCY QUORUM; SELECT count(*) FROM compat_cqlsh.user WHERE user='theo'" "(1 rows)"
want "EXPAND ON; SELECT * FROM compat_cqlsh.user WHERE user='theo'" "@ Row 1"
want "DESCRIBE CLUSTER" "Murmur3Partitioner"
want "DESCRIBE KEYSPACE compat_cqlsh" "CREATE TABLE compat_cqlsh.user"
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
want "COPY compat_cqlsh.user TO '$tmp'" "2 rows exported"
want "TRUNCATE compat_cqlsh.user; COPY compat_cqlsh.user FROM '$tmp'; SELECT count(*) FROM compat_cqlsh.user WHERE user='theo'" "2"
want "SELECT * FROM compat_cqlsh.nosuch" "nosuch"
run "DROP KEYSPACE compat_cqlsh" >/dev/null
echo "cqlsh: DDL, DML, JSON, tracing, DESCRIBE, COPY TO and FROM"
