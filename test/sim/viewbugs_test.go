// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package sim

import "github.com/ilion-db/ilion/test/sim/planted"

// viewEdits returns the mutations of view maintenance that TestMutationsAreFound plants: at least one for each method
// of maintaining a view.
func viewEdits() []planted.Edit {
	const view, write, storage = "../../internal/query/view/", "../../internal/query/write/view.go",
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
				"mutated(`view batches`) && x.used > 1 {\ncontinue\n}\nt.group.ops = v.Row(t.group.ops, "},
		{File: write, Old: "t.group.ops = v.Range(t.group.ops, start, end)",
			New: "if !mutated(`view ranges`) {\nt.group.ops = v.Range(t.group.ops, start, end)\n}"},
		{File: storage + "hints.go", Old: "if hintStamp(value) > stamp {",
			New: "if hintStamp(value) > stamp && !mutated(`settled`) {"},
	}
}

// viewMistakes returns the mutations of views by the names under which their seeds are stored.
func viewMistakes() (out []mistake) {
	const only = "Views,Splits,Merges,StepFaults,Lost,Suspends,Refusals,Rough,LongPauses"
	for _, m := range []struct{ name, mistake string }{
		{"rows do not appear in views", "appears"},
		{"rows that move stay where they were in views", "view moves"},
		{"rows that are not shown any more stay in views", "disappears"},
		{"views do not follow columns that are not in their keys", "partial"},
		{"columns that are null stay in views", "view nulls"},
		{"elements of collections stay in views", "view elements"},
		{"rows of views outlive what they stand on", "view ends"},
		{"views do not follow deleted rows", "view deletions"},
		{"views do not follow deleted ranges and partitions", "view ranges"},
		{"views do not follow conditions", "view conditions"},
		{"views do not follow batches", "view batches"},
		{"views show what their WHERE clause does not", "view where"},
		{"a row is put where no place leads", "known"},
		{"a slow delivery settles places", "since"},
		{"deliveries have later stamps than their hints", "view stamps"},
		{"hints are removed that were written again", "settled"},
		{"nobody looks for the hints of the dead", "view rounds"},
	} {
		out = append(out, mistake{m.name, m.mistake, only})
	}
	return out
}
