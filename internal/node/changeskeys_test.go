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

// TestChangesOfLongKeys checks that the change feeds of a key, its physical partition, and the container contain the
// changes of items with long partition keys. The test covers both versions of the hash. Some keys share the first
// hundred bytes. Version 1 hashes such keys to the same value.
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
				page, err := n.Containers.Changes(t.Context(), s.c, r)
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
		ranges, _ := n.Containers.Ranges(s.c)
		var parts, hashed []string
		for _, r := range ranges {
			parts = append(parts, changes(container.Scope{Range: r.ID})...)
			hashed = append(hashed, changes(container.Scope{MinEPK: r.Min, MaxEPK: r.Max})...)
		}
		slices.Sort(parts)
		slices.Sort(hashed)
		if len(ranges) != 4 || !slices.Equal(parts, all) || !slices.Equal(hashed, all) {
			t.Errorf("version %d: %d changes in %d partitions, %d in hash ranges, want %d", version, len(parts),
				len(ranges), len(hashed), len(all))
		}
		for _, k := range keys {
			if got := changes(container.Scope{Key: key(k)}); len(got) != 1 || !strings.Contains(got[0], `"`+k+`"`) {
				t.Errorf("version %d: %d changes of the key of %d bytes", version, len(got), len(k))
			}
			hash := s.c.Definition.Hash.Hex(key(k)) // SDKs request the EPK range of a key
			got := changes(container.Scope{MinEPK: hash, MaxEPK: hash + epk.End})
			if !slices.ContainsFunc(got, func(d string) bool { return strings.Contains(d, `"`+k+`"`) }) {
				t.Errorf("version %d: the key of %d bytes is not in the range of its hash", version, len(k))
			}
		}
	}
}

// TestChangesInOrder checks that the changes in a page are in commit order, even if their partition keys differ. The
// test covers single physical partitions and the whole container. Readers that start now at each physical partition
// must receive each change exactly once in total.
func TestChangesInOrder(t *testing.T) {
	t.Parallel()
	n := startNode(t, Options{InitialPartitions: 2})
	s := newContainer(t, n, `{"id":"c","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
		"changeFeedPolicy":{"retentionDuration":10}}`)
	ranges, _ := n.Containers.Ranges(s.c)
	scopes := []container.Scope{{}}
	for _, r := range ranges {
		scopes = append(scopes, container.Scope{Range: r.ID})
	}
	read := func(r *container.ChangesRequest) (ids []string) {
		t.Helper()
		page, err := n.Containers.Changes(t.Context(), s.c, r)
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
					t.Errorf("changed items: %v, want %v", got, want)
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
