// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/document"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/query/container"
)

// TestChangesOfLongKeys proves that changes of items with partition keys of any length are found in the change feed of
// their key, of their physical partition and of all, for each version of the hash, also where keys have the same first
// hundred bytes, which version 1 does not tell apart.
func TestChangesOfLongKeys(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		n := startNode(t, Options{InitialPartitions: 4})
		s := newContainer(t, n, fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":%d}}`,
			version))
		var keys []string
		for _, size := range []int{1, 99, 100, 101, 102, 200, 1000, 2000} {
			for _, end := range []string{"", "a", "b", "ü"} {
				k := strings.Repeat("x", size) + end
				keys = append(keys, k)
				s.want(201, nil, create(fmt.Sprintf(`{"id":"%d%s","k":"%s"}`, size, end, k)))
			}
		}
		changes := func(scope container.Scope) (out []string) {
			t.Helper()
			r := &container.ChangesRequest{Scope: scope, MaxItems: 3}
			for {
				page, err := n.containers.Changes(t.Context(), s.c, r)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range page.Documents {
					out = append(out, string(d))
				}
				if r.Continuation = page.Continuation; page.Ended {
					slices.Sort(out)
					return out
				}
			}
		}
		all := changes(container.Scope{})
		if len(all) != len(keys) {
			t.Errorf("version %d: %d changes of %d items", version, len(all), len(keys))
		}
		ranges, _ := n.containers.Ranges(s.c)
		var parts, hashed []string
		for _, r := range ranges {
			parts = append(parts, changes(container.Scope{Range: r.ID})...)
			hashed = append(hashed, changes(container.Scope{MinEPK: r.Min, MaxEPK: r.Max})...)
		}
		slices.Sort(parts)
		slices.Sort(hashed)
		if len(ranges) != 4 || !slices.Equal(parts, all) || !slices.Equal(hashed, all) {
			t.Errorf("version %d: %d changes of %d partitions, %d of ranges of hashes, want %d", version, len(parts),
				len(ranges), len(hashed), len(all))
		}
		for _, k := range keys {
			if got := changes(container.Scope{Key: key(k)}); len(got) != 1 || !strings.Contains(got[0], `"`+k+`"`) {
				t.Errorf("version %d: %d changes of the key of %d bytes", version, len(got), len(k))
			}
			hash := s.c.Definition.Hash.Hex(key(k)) // an SDK asks for the range of a key
			got := changes(container.Scope{MinEPK: hash, MaxEPK: hash + epk.End})
			if !slices.ContainsFunc(got, func(d string) bool { return strings.Contains(d, `"`+k+`"`) }) {
				t.Errorf("version %d: the key of %d bytes is not in the range of its hash", version, len(k))
			}
		}
	}
}

// TestChangesInOrder proves that the changes of a page are in the order of their commits, whatever their partition keys
// are, for a physical partition, which a client may name, and for all, and that each comes once where a client begins
// with now at each physical partition.
func TestChangesInOrder(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"changeFeedPolicy":{"retentionDuration":10}}`)
	ranges, _ := n.containers.Ranges(s.c)
	scopes := []container.Scope{{}}
	for _, r := range ranges {
		scopes = append(scopes, container.Scope{Range: r.ID})
	}
	read := func(r *container.ChangesRequest) (ids []string) {
		t.Helper()
		page, err := n.containers.Changes(t.Context(), s.c, r)
		if err != nil {
			t.Fatal(err)
		}
		r.Continuation, r.Now = page.Continuation, false
		for _, d := range page.Documents {
			v := document.View(d)
			if r.AllVersions {
				v = v.Get("current")
			}
			ids = append(ids, v.Get("id").Str())
		}
		return ids
	}
	var from []*container.ChangesRequest
	for _, all := range []bool{false, true} {
		for _, scope := range scopes {
			r := &container.ChangesRequest{Scope: scope, AllVersions: all, Now: true}
			read(r)
			from = append(from, r)
		}
	}
	var want []string
	for i := range 40 {
		id := fmt.Sprintf("%02d", i)
		s.want(201, nil, create(fmt.Sprintf(`{"id":"%s","k":"%d"}`, id, i%7)))
		want = append(want, id)
	}
	for range 2 {
		var parts []string
		for i, r := range from {
			got := read(r)
			if !slices.IsSorted(got) {
				t.Errorf("scope %+v, all versions %v: %v", r.Scope, r.AllVersions, got)
			}
			if i%len(scopes) == 0 {
				if !slices.Equal(got, want) {
					t.Errorf("%v were changed, want %v", got, want)
				}
				continue
			}
			parts = append(parts, got...)
		}
		slices.Sort(parts)
		if twice := append(slices.Clone(want), want...); len(parts) != len(twice) ||
			!slices.Equal(slices.Compact(parts), want) {
			t.Errorf("the physical partitions have %d changes, want %d", len(parts), len(twice))
		}
		want = nil
	}
}
