// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"

	"github.com/ilion-db/ilion/test/sim/planted"
)

// TestEditsApply checks that the source files contain the texts that the mutations replace. The tests that plant the
// mutations run only in builds with invariant checks. TestEditsApply detects a renamed variable in all builds.
func TestEditsApply(t *testing.T) {
	planted.Check(t, edits()...)
}

// edits returns the named mutations of the product that TestMutationsAreFound plants.
func edits() []planted.Edit {
	const partition, reconcile = "../../internal/replica/partition/", "../../internal/control/reconcile/"
	const items, feed = "../../internal/query/container/", "../../internal/query/changefeed/"
	const storage, scripts = "../../internal/replica/storage/", "../../internal/query/function/script/"
	return append(viewEdits(), []planted.Edit{
		{File: partition + "merge.go", Old: "next.stamp, next.schema = max(next.stamp, o.stamp), max(",
			New: "if !mutated(`merged stamps`) { next.stamp = max(next.stamp, o.stamp) }\nnext.schema = max("},
		// The leader and all replicas observe the timestamp.
		{File: partition + "merge.go", Old: "r.stamps.observe(right.stamps.last.Load())",
			New: "if !mutated(`merged stamps`) { r.stamps.observe(right.stamps.last.Load()) }"},
		{File: partition + "merge.go", Old: "r.dedupe.merge(&right.dedupe)\n",
			New: "if !mutated(`merged ids`) { r.dedupe.merge(&right.dedupe) }\n"},
		{File: reconcile + "split.go", Old: "recalled := span.Limit.Compare(p.Split.At) != 0",
			New: "recalled := !mutated(`epoch`) && span.Limit.Compare(p.Split.At) != 0"},
		{File: partition + "conditional.go", Old: "stripeOf(m.Table, m.Token), r, m.Key, oneKey)",
			New: "stripeOf(m.Table, m.Token), r, func() []byte {\nif mutated(`latch`) { return " +
				"append([]byte{byte(m.Dedupe.Sequence)}, m.Key...) }\nreturn m.Key }(), oneKey)"},
		{File: partition + "conditional.go", Old: "if d, err := dedupeResult(r.host.store, m); d != nil || err != nil {",
			New: "if d, err := dedupeResult(r.host.store, m); (c.Program == nil && c.Log == nil || !mutated(`repeats`)) && " +
				"(d != nil || err != nil) {"},
		{File: partition + "conditional.go", Old: "if d, err := r.host.recordMissing(ctx, c); d != nil || err != nil {",
			New: "if d, err := r.host.recordMissing(ctx, c); !mutated(`late conditionals`) && (d != nil || err != nil) {"},
		{File: partition + "dedupemissing.go", Old: "if err != nil || recorded {",
			New: "if err != nil || recorded || mutated(`finished batches`) {"},
		{File: storage + "garbage.go", Old: "return ok && recorded(id.Coordinator)",
			New: "return ok && recorded(id.Coordinator) && !mutated(`recorded parts`)"},
		{File: partition + "control.go", Old: "applied, err := r.dedupe.begin(t.Attempt)\n",
			New: "applied, err := r.dedupe.begin(t.Attempt)\nif mutated(`truncations`) { applied, err = false, nil }\n"},
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
		{File: partition + "changelog.go", Old: "whole.Ops = stampedOps(whole.Ops, stamp); is(b.parts[i])",
			New: "whole.Ops = stampedOps(whole.Ops, stamp); is(b.parts[i]) && !mutated(`parts`)"},
		{File: storage + "images.go", Old: "x.image.Clustering, x.image.Entry = clustering, 0",
			New: "x.image.Clustering, x.image.Entry = clustering, 0\nif mutated(`covered`) { covered = row.NotDeleted }"},
		{File: storage + "changes.go", Old: "if len(op.Value) == 8 {\n\t\tkey = keys.AppendChange(",
			New: "if len(op.Value) == 8 && !mutated(`old entries`) {\n\t\tkey = keys.AppendChange("},
		{File: storage + "changes.go", Old: "static := pointed && len",
			New: "static := !mutated(`statics`) && pointed && len"},
		{File: storage + "changes.go", Old: "gone = !good", New: "gone = !good || mutated(`swept changes`)"},
		{File: storage + "changes.go", Old: "case good:", New: "case good && !mutated(`swept changes`):"},
	}...)
}

// viewEdits returns the mutations of view maintenance that TestMutationsAreFound plants. It returns at least one
// mutation for each method of maintaining a view.
func viewEdits() []planted.Edit {
	const view, write, storage = "../../internal/query/cql/view/", "../../internal/query/cql/write/view.go",
		"../../internal/replica/storage/"
	return []planted.Edit{
		{File: view + "hints.go", Old: "return append(dst, v.op(keys.HintStale, keys.AppendStaleRow(",
			New: "if mutated(`appears`) && insert && value != nil {\nreturn dst\n}\n" +
				"return append(dst, v.op(keys.HintStale, keys.AppendStaleRow("},
		{File: view + "follow.go", Old: "if p, ok := v.place(values, value); ok {",
			New: "if p, ok := v.place(values, value); ok && !(mutated(`view moves`) && image.Shown) && " +
				"!(mutated(`disappears`) && !image.Shown) {"},
		{File: view + "follow.go", Old: "case image.Shown && known:",
			New: "case image.Shown && (known || mutated(`known`)):"},
		{File: view + "follow.go", Old: "if since || err != nil {",
			New: "if since && !mutated(`since`) || err != nil {"},
		{File: view + "follow.go", Old: "v.view.image(&b, &values, r, v.stamp, now)",
			New: "v.view.image(&b, &values, r, v.stamp+map[bool]int64{true: 2_000_000}[mutated(`view stamps`)], now)"},
		{File: view + "round.go", Old: "func(i int) { k.catchUp(",
			New: "func(i int) {\nif mutated(`view rounds`) {\nreturn\n}\nk.catchUp("},
		{File: view + "view.go", Old: "ends = min(ends, last)",
			New: "if !mutated(`view ends`) {\nends = min(ends, last)\n}"},
		{File: view + "view.go", Old: "if changes(m.from) {", New: "if changes(m.from) && !mutated(`partial`) {"},
		{File: view + "view.go", Old: "b.Tombstone(m.to, nil, now)",
			New: "if !mutated(`view nulls`) {\nb.Tombstone(m.to, nil, now)\n}"},
		{File: view + "view.go", Old: "b.DeleteColumn(m.to, delta, now)",
			New: "if !mutated(`view elements`) {\nb.DeleteColumn(m.to, delta, now)\n}"},
		{File: view + "where.go", Old: "if !v.where[i].holds(w) {",
			New: "if !v.where[i].holds(w) && !mutated(`view where`) {"},
		{File: write, Old: "t.group.ops = v.Row(t.group.ops, ",
			New: "if mutated(`view deletions`) && p.kind == remove || mutated(`view conditions`) && p.conditional || " +
				"mutated(`view batches`) && x.groups.used > 1 {\ncontinue\n}\nt.group.ops = v.Row(t.group.ops, "},
		{File: write, Old: "t.group.ops = v.Range(t.group.ops, start, end)",
			New: "if !mutated(`view ranges`) {\nt.group.ops = v.Range(t.group.ops, start, end)\n}"},
		{File: storage + "hints.go", Old: "if hintStamp(value) > stamp {",
			New: "if hintStamp(value) > stamp && !mutated(`settled`) {"},
	}
}
