#!/bin/sh
# check.sh runs the model checker over every model of this folder: with all rules on, which must hold, and with each
# rule off, which must fail. TLC names the checker's jar file (see README.md).
set -e
cd "$(dirname "$0")"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0
run() { # name module expected
	java -XX:+UseParallelGC -Xmx1g -jar "${TLC:?the path of tla2tools.jar}" -workers 1 -noGenerateSpecTE \
		-metadir "$out/states" -config "$1" "$2.tla" >"$out/log" 2>&1 || true
	if grep -q 'No error has been found' "$out/log"; then got=holds
	else got=$(sed -n 's/^Error: Invariant \([A-Za-z]*\) is violated.*/\1/p' "$out/log"); fi
	[ "$got" = "$3" ] || { failed=1; tail -20 "$out/log"; }
	echo "$2 $(basename "$1" .cfg): ${got:-error} (expected $3)"
}
without() { # module base expected NAME=VALUE...
	module=$1 base=$2 expected=$3 name=$4
	shift 3
	cp "$base.cfg" "$out/no-$name.cfg"
	for rule; do sed -i "s/^  ${rule%%=*} = .*/  ${rule%%=*} = ${rule#*=}/" "$out/no-$name.cfg"; done
	run "$out/no-$name.cfg" "$module" "$expected"
}
run batch-parts.cfg BatchParts holds
without BatchParts batch-parts holds Skew=1
without BatchParts batch-parts Once SweepAsks=FALSE
without BatchParts batch-parts Once LeaderAsks=FALSE
without BatchParts batch-parts Once AskUnderLatch=FALSE
without BatchParts batch-parts Once FinalRemoval=FALSE
without BatchParts batch-parts Once AskAt=3 Skew=1
exit $failed
