// SPDX-License-Identifier: Apache-2.0

//go:build invariants

package sim

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
