// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package sim

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/test/sim/planted"
)

// edits returns the named mutations of the product that TestMutationsAreFound plants.
func edits() []planted.Edit {
	const partition, reconcile = "../../internal/replica/partition/", "../../internal/control/reconcile/"
	const items, feed = "../../internal/query/container/", "../../internal/query/changefeed/"
	const storage, scripts = "../../internal/replica/storage/", "../../internal/query/script/"
	return []planted.Edit{
		{File: partition + "merge.go", Old: "next.stamp, next.schema = max(next.stamp, o.stamp), max(",
			New: "if !mutated(`merged stamps`) { next.stamp = max(next.stamp, o.stamp) }\nnext.schema = max("},
		{File: partition + "merge.go", Old: "r.stamps.observe(right.stamps.last.Load())", // by its leader, and by all
			New: "if !mutated(`merged stamps`) { r.stamps.observe(right.stamps.last.Load()) }"},
		{File: partition + "merge.go", Old: "r.recent.join(&right.recent)\n",
			New: "if !mutated(`merged ids`) { r.recent.join(&right.recent) }\n"},
		{File: reconcile + "split.go", Old: "recalled := span.Limit.Compare(p.Split.At) != 0",
			New: "recalled := !mutated(`epoch`) && span.Limit.Compare(p.Split.At) != 0"},
		{File: partition + "decide.go", Old: "stripeOf(m.Table, m.Token), r, m.Key, oneKey)",
			New: "stripeOf(m.Table, m.Token), r, func() []byte {\nif mutated(`latch`) { return " +
				"append([]byte{byte(m.Dedupe.Sequence)}, m.Key...) }\nreturn m.Key }(), oneKey)"},
		{File: partition + "decide.go", Old: "if d, err := r.repeated(m); d != nil || err != nil {",
			New: "if d, err := r.repeated(m); (c.Program == nil && c.Log == nil || !mutated(`repeats`)) && " +
				"(d != nil || err != nil) {"},
		{File: partition + "decide.go", Old: "if d, err := r.late(ctx, c); d != nil || err != nil {",
			New: "if d, err := r.late(ctx, c); !mutated(`late conditionals`) && (d != nil || err != nil) {"},
		{File: partition + "late.go", Old: "if err != nil || recorded {",
			New: "if err != nil || recorded || mutated(`finished batches`) {"},
		{File: storage + "garbage.go", Old: "return ok && recorded(id.Coordinator)",
			New: "return ok && recorded(id.Coordinator) && !mutated(`recorded parts`)"},
		{File: partition + "write.go", Old: "applied, err := r.recent.enter(t.Attempt)\n",
			New: "applied, err := r.recent.enter(t.Attempt)\nif mutated(`truncations`) { applied, err = false, nil }\n"},
		{File: partition + "transaction.go", Old: "v.write(c, t.ops, ",
			New: "if mutated(`changes`) { t.ops = t.ops[:max(1, len(t.ops)-1)] }\nv.write(c, t.ops, "},
		{File: items + "run.go", Old: "if err == nil && r.answer.failed < 0 {",
			New: "if err == nil && (mutated(`halves`) || r.answer.failed < 0) {"},
		{File: items + "transaction.go", Old: "if s := t.items[id]; s != nil {",
			New: "if s := t.items[id]; s != nil && !(mutated(`own`) && s.changed) {"},
		{File: items + "transaction.go", Old: "case !matches(quoted(op.IfMatch), etag):",
			New: "case !mutated(`etags`) && !matches(quoted(op.IfMatch), etag):"},
		{File: items + "unique.go", Old: "id == h.id || o != nil && o.changed {",
			New: "mutated(`unique`) || id == h.id || o != nil && o.changed {"},
		{File: items + "indexentries.go", Old: "bytes.Compare); !there {",
			New: "bytes.Compare); !there && !(mutated(`entries`) && len(out) == 2) {"},
		{File: items + "transaction.go", Old: "b.LiveFor(own, t.now)",
			New: "if mutated(`lives`) { own = 1 << 30 }\nb.LiveFor(own, t.now)"},
		{File: items + "batch.go", Old: "b.DeleteRow(now)", New: "if !mutated(`clears`) { b.DeleteRow(now) }"},
		{File: items + "log.go", Old: "if t.c.Definition.Keep > 0 {",
			New: "if t.c.Definition.Keep > 0 && !(mutated(`deletions`) && s.is == nil) {"},
		{File: items + "log.go", Old: "if s.is != nil {\n\t\top.Index",
			New: "if s.is != nil && !(mutated(`replaced`) && s.was != nil) {\n\t\top.Index"},
		{File: scripts + "service.go", Old: "request, l.out.Log = out.Request, l.out.Log+out.Log",
			New: "if !mutated(`triggers`) { request = out.Request }\nl.out.Log += out.Log"},
		{File: feed + "marks.go", Old: "stamp = int64(binary.BigEndian.Uint64(clustering))",
			New: "stamp = int64(binary.BigEndian.Uint64(clustering))\nif mutated(`horizon`) " +
				"{ (*m)[len(*m)-1].stamp += 30_000 }"},
		{File: feed + "reader.go", Old: "if f.full() {\n\t\t\treturn true, nil",
			New: "if f.full() {\nif mutated(`places`) { last.clustering = []byte{} }\nreturn true, nil"},
		{File: storage + "entries.go", Old: "err == nil && !good {",
			New: "err == nil && (!good || mutated(`swept`) && seen%5 == 0) {"},
		{File: storage + "entries.go", Old: "if good {", New: "if good && !mutated(`swept`) {"},
		{File: partition + "changelog.go", Old: "if i.Changed() {",
			New: "if i.Changed() && !(mutated(`unlogged deletions`) && !i.After.Exists()) {"},
		{File: partition + "changelog.go", Old: "if some {\n\t\tx.begin",
			New: "if some && !mutated(`ranges`) {\n\t\tx.begin"},
		{File: partition + "changelog.go", Old: "whole.Ops = stampedOps(whole.Ops, stamp); is(parts[i])",
			New: "whole.Ops = stampedOps(whole.Ops, stamp); is(parts[i]) && !mutated(`parts`)"},
		{File: storage + "images.go", Old: "x.image.Clustering, x.image.Entry = clustering, 0",
			New: "x.image.Clustering, x.image.Entry = clustering, 0\nif mutated(`covered`) { covered = row.NotDeleted }"},
		{File: storage + "changes.go", Old: "if len(op.Value) == 8 {\n\t\tkey = keys.AppendChange(",
			New: "if len(op.Value) == 8 && !mutated(`old entries`) {\n\t\tkey = keys.AppendChange("},
		{File: storage + "changes.go", Old: "static := pointed && len",
			New: "static := !mutated(`statics`) && pointed && len"},
		{File: storage + "changes.go", Old: "gone = !good", New: "gone = !good || mutated(`swept changes`)"},
		{File: storage + "changes.go", Old: "case good:", New: "case good && !mutated(`swept changes`):"},
	}
}

// mistake is a named mutation of the product. name describes it, and only lists the faults under which it is searched.
type mistake struct{ name, mistake, only string }

// TestMutationsAreFound checks that mutations of the product that cannot be planted around it are found within 200
// seeds. The simulator is built once from changed source files that contain all mutations; an environment variable
// selects one. The test needs a compilation, so it runs only in builds with invariant checks.
func TestMutationsAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a compilation")
	}
	const merges = "Splits,Merges,Growth,MergeStress"
	const stragglers = "Stragglers,Batches,Schema"
	seeds := planted.Read(t)
	bin := planted.Build(t, append(edits(), viewEdits()...)...)
	for _, m := range append([]mistake{
		{"stamps do not come over with a merge", "merged stamps", merges + ",Jumps"},
		{"ids do not come over with a merge", "merged ids", merges},
		{"the next epoch is taken for a split", "epoch", "Splits"},
		{"transactions of a key do not wait for each other", "latch", "Transactions"},
		{"a transaction that is sent again is carried out again", "repeats", "Transactions,Rough,Refusals"},
		{"a conditional is applied again after its record was swept", "late conditionals", stragglers},
		{"a part of a batch whose record was removed is applied again", "finished batches", stragglers},
		{"the records of parts of a batch are swept while it is recorded", "recorded parts", stragglers},
		{"a TRUNCATE that is sent again is carried out again", "truncations", stragglers},
		{"a change of a transaction is left out", "changes", "Transactions"},
		{"requests for items of a key do not wait for each other", "latch", "Containers"},
		{"what a request for items has done before it failed is kept", "halves", "Containers"},
		{"a request for items does not see what it has written", "own", "Containers"},
		{"the etags of items are not compared", "etags", "Containers"},
		{"the unique keys of stored items are not looked at", "unique", "Containers"},
		{"some entries of the index are left out", "entries", "Containers"},
		{"a sweep removes entries of the index that are true", "swept", "Containers"},
		{"a round of the change feed ends above the horizon", "horizon", "Containers"},
		{"a page of the change feed goes on at the beginning of its key", "places", "Containers"},
		{"replaced items do not come in the change feed", "replaced", "Containers"},
		{"deletions are not among all versions", "deletions", "Containers"},
		{"items with a time to live stay", "lives", "Containers"},
		{"the deletion of a key leaves its items", "clears", "Containers"},
		{"what a trigger makes of an item is not stored", "triggers", "Containers"},
		{"writes to a key with a feed do not wait for each other", "latch", "Feeds"},
		{"a write to a table with a feed that is sent again is carried out again", "repeats", "Feeds,Rough,Refusals"},
		{"a round of the feed of a table ends above the horizon", "horizon", "Feeds"},
		{"a page of the feed of a table goes on at the beginning of its key", "places", "Feeds"},
		{"deletions of rows are not among all changes", "unlogged deletions", "Feeds"},
		{"deletions of ranges are not among all changes", "ranges", "Feeds"},
		{"parts of batches are not among all changes", "parts", "Feeds"},
		{"an image before has what a range deletion hides", "covered", "Feeds"},
		{"a row keeps its earlier entry in the change log", "old entries", "Feeds"},
		{"the latest versions leave out static rows", "statics", "Feeds"},
		{"a sweep removes entries of the change log that are good", "swept changes", "Feeds"},
	}, viewMistakes()...) {
		t.Run(m.name, func(t *testing.T) {
			seeds.Find(t, m.name, func(seed uint64) bool {
				out, failed := bin.Seeds(m.mistake, seed, 1, "-sim.only="+m.only)
				if failed {
					said, _, _ := strings.Cut(out[max(0, strings.Index(out, "failures")):], "\n")
					t.Logf("found with seed %d: %s", seed, said)
				}
				return failed
			})
		})
	}
	for _, only := range []string{merges + ",Jumps", "Transactions,Containers", "Feeds,Splits,Merges",
		"Views,Splits,Merges", stragglers} {
		if out, failed := bin.Seeds("", 1, 2, "-sim.only="+only); failed {
			t.Errorf("without a mutation, %s: %s", only, out)
		}
	}
}
