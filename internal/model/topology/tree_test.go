// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestTree checks that a tree behaves like a map, and that changes do not affect the original tree. The test also
// checks that the changes between any two trees equal the trees' differences.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.Uint64Range(0, 100), rapid.Uint64Range(0, 1<<20), rapid.Uint64())
		trees, models := []tree[int]{{}}, []map[uint64]*int{{}}
		for range rapid.IntRange(0, 60).Draw(t, "changes") {
			at := rapid.IntRange(0, len(trees)-1).Draw(t, "of")
			model := maps.Clone(models[at])
			var v *int
			n := id.Draw(t, "id")
			if rapid.IntRange(0, 2).Draw(t, "put") > 0 {
				v = new(int)
				model[n] = v
			} else {
				for known := range model { // select any number in the tree
					n = known
					break
				}
				delete(model, n)
			}
			trees, models = append(trees, trees[at].with(n, v)), append(models, model)
		}
		for i, tr := range trees {
			got, last, first := map[uint64]*int{}, uint64(0), true
			tr.all(func(id uint64, v *int) bool {
				if !first && id <= last {
					t.Fatalf("%d comes after %d", id, last)
				}
				got[id], last, first = v, id, false
				return true
			})
			if !maps.Equal(got, models[i]) || tr.count != len(models[i]) {
				t.Fatalf("tree %d has %d of %d", i, len(got), len(models[i]))
			}
			for n, v := range models[i] {
				if tr.get(n) != v {
					t.Fatalf("%d has a different value", n)
				}
			}
			if n := id.Draw(t, "any"); tr.get(n) != models[i][n] {
				t.Fatalf("%d has a value", n)
			}
		}
		from, to := rapid.IntRange(0, len(trees)-1).Draw(t, "from"), rapid.IntRange(0, len(trees)-1).Draw(t, "to")
		model := maps.Clone(models[from])
		changes(trees[from], trees[to], func(id uint64, was, is *int) bool {
			if was == is || was != model[id] {
				t.Fatalf("%d is no change", id)
			}
			if model[id] = is; is == nil {
				delete(model, id)
			}
			return true
		})
		if !maps.Equal(model, models[to]) {
			t.Fatal("some changes are missing")
		}
	})
}
