#!/usr/bin/env bash
# Copies 100,000 rows from a table to another with COPY: copy.sh CQLSH HOST PORT. The last line contains the rates that cqlsh reports.
set -uo pipefail
cqlsh=$1 host=$2 port=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { "$cqlsh" "$host" "$port" --no-color --request-timeout=60 -e "$1" 2>&1; }
ks=compat_copy
columns="id, name, at, tags, facts, price, raw"
table="(id int PRIMARY KEY, name text, at timestamp, tags set<text>, facts map<text, int>, price decimal, raw blob)"
run "DROP KEYSPACE IF EXISTS $ks; CREATE KEYSPACE $ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
  CREATE TABLE $ks.a $table; CREATE TABLE $ks.b $table" >"$dir/out" || { cat "$dir/out"; exit 1; }
for i in $(seq 100000); do
  echo "$i,name $i,2026-11-23 10:00:00.$((i % 900 + 100))+0000,\"{'x', 't$((i % 7))'}\",{'n': $i},$i.25,0xca$((i % 10))e"
done >"$dir/in.csv"
said() { grep -F "$2" <<<"$1" | tail -n 1; }
first=$(run "COPY $ks.a ($columns) FROM '$dir/in.csv'"); from=$(said "$first" "rows imported from")
second=$(run "COPY $ks.a ($columns) TO '$dir/out.csv'"); to=$(said "$second" "rows exported to")
third=$(run "COPY $ks.b ($columns) FROM '$dir/out.csv'"); again=$(said "$third" "rows imported from")
fourth=$(run "COPY $ks.b ($columns) TO '$dir/twice.csv'"); back=$(said "$fourth" "rows exported to")
for line in "$from" "$to" "$again" "$back"; do
  case $line in "100000 rows "*) ;; *) printf 'not 100,000 rows:\n%s\n%s\n%s\n%s\n' "$first" "$second" "$third" "$fourth"; exit 1;; esac
done
[ "$(wc -l <"$dir/out.csv")" = 100000 ] && cmp <(sort "$dir/out.csv") <(sort "$dir/twice.csv") || { echo "the tables differ"; exit 1; }
count=$(run "SELECT name, facts, raw FROM $ks.b WHERE id = 77777")
grep -q "name 77777.*'n': 77777.*0xca7e" <<<"$count" || { echo "$count"; exit 1; }
run "DROP KEYSPACE $ks" >/dev/null
# "... in 4.321 seconds.", or "... in 1 minute and 2.345 seconds."
seconds() { grep -oE "[0-9.]+ (minute|second)" <<<"$1" | awk '{ s += $1 * ($2 == "minute" ? 60 : 1) } END { print s }'; }
rate() { awk -v s="$(seconds "$1")" 'BEGIN { printf "%d", 100000 / s }'; }
echo "cqlsh COPY of 100,000 rows: FROM $(rate "$from") and $(rate "$again"), TO $(rate "$to") and $(rate "$back") rows a second"
