#!/usr/bin/env bash
# Runs typical cqlsh input: cqlsh.sh CQLSH HOST PORT
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

# Commands of cqlsh itself.
want "SHOW VERSION" "[cqlsh "
want "SHOW HOST" "Connected to "
want "PAGING 2; SELECT user, id FROM compat_cqlsh.user; PAGING" "Page size: 2"
want "PAGING OFF; PAGING" "PAGING is OFF"
want "EXPAND ON; EXPAND" "EXPAND is ON"
want "TRACING ON; INSERT INTO compat_cqlsh.user (user,id,message) VALUES ('ada',1,'traced'); TRACING OFF; TRACING" "Request complete"
want "SERIAL CONSISTENCY LOCAL_SERIAL; SERIAL CONSISTENCY" "Current serial consistency level is LOCAL_SERIAL"
echo "SELECT message FROM compat_cqlsh.user WHERE user = 'ada';" >"$tmp"
want "SOURCE '$tmp'" "traced"
: >"$tmp"
want "CAPTURE '$tmp'; SELECT message FROM compat_cqlsh.user WHERE user = 'ada'; CAPTURE OFF" "Now capturing query output"
grep -q traced "$tmp" || { echo "CAPTURE wrote nothing"; exit 1; }
want "LOGIN cassandra 'cassandra'; SELECT message FROM compat_cqlsh.user WHERE user = 'ada'" "traced"
run "CREATE TYPE compat_cqlsh.name (first text, last text); CREATE INDEX by_message ON compat_cqlsh.user (message)"
want "DESC TYPES" "name"
want "DESCRIBE TYPE compat_cqlsh.name" "CREATE TYPE compat_cqlsh.name"
want "DESCRIBE INDEX compat_cqlsh.by_message" "CREATE INDEX by_message ON compat_cqlsh.user (message)"
want "DESCRIBE TABLES" "Keyspace compat_cqlsh"
want "DESCRIBE SCHEMA" "CREATE KEYSPACE compat_cqlsh"
want "DESCRIBE FULL SCHEMA" "CREATE TABLE system.local"
want "DESCRIBE TABLE system.local" "cql_version text"
want "DESCRIBE INDEX compat_cqlsh.nosuch" "nosuch"
run "DROP KEYSPACE compat_cqlsh" >/dev/null
echo "cqlsh: DDL, DML, JSON, DESCRIBE, COPY TO and FROM, CAPTURE, CONSISTENCY, EXPAND, LOGIN, PAGING, SHOW, SOURCE, TRACING"
