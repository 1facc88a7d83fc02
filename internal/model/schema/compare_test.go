// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestCompare proves that each kind of difference is one event, and that what was decoded anew and is equal is none.
func TestCompare(t *testing.T) {
	table := func(name string, id uint32, revision uint64) *Table {
		return &Table{Keyspace: "ks", Name: name, ID: id, Revision: revision}
	}
	udt := func(field string) *cqltype.Type {
		return &cqltype.Type{Kind: cqltype.UDT, Keyspace: "ks", Name: "u", Fields: []string{field},
			Elems: []*cqltype.Type{{Kind: cqltype.Int}}}
	}
	old := &Schema{Keyspaces: map[string]*Keyspace{
		"gone": {Name: "gone", Tables: map[string]*Table{"t": table("t", 9, 1)}},
		"ks": {
			Name: "ks", Replication: map[string]string{"class": "a"},
			Types: map[string]*cqltype.Type{"u": udt("a"), "same": udt("b"), "dropped": udt("c")},
			Tables: map[string]*Table{"t": table("t", 1, 1), "same": table("same", 2, 2), "again": table("again", 3, 3),
				"dropped": table("dropped", 4, 4)},
		},
	}}
	next := &Schema{Keyspaces: map[string]*Keyspace{
		"new": {Name: "new", Tables: map[string]*Table{"t": table("t", 10, 7)}},
		"ks": {
			Name: "ks", Replication: map[string]string{"class": "b"},
			Types: map[string]*cqltype.Type{"u": udt("x"), "same": udt("b")},
			Tables: map[string]*Table{"t": table("t", 1, 5), "same": table("same", 2, 2),
				"again": table("again", 11, 6)},
		},
	}}
	want := []Event{
		{Change: Dropped, Target: TargetKeyspace, Keyspace: "gone", Name: ""},
		{Change: Updated, Target: TargetKeyspace, Keyspace: "ks", Name: ""},
		{Change: Created, Target: TargetKeyspace, Keyspace: "new", Name: ""},
		{Change: Dropped, Target: TargetType, Keyspace: "ks", Name: "dropped"},
		{Change: Updated, Target: TargetType, Keyspace: "ks", Name: "u"},
		{Change: Dropped, Target: TargetTable, Keyspace: "ks", Name: "again"},
		{Change: Created, Target: TargetTable, Keyspace: "ks", Name: "again"},
		{Change: Dropped, Target: TargetTable, Keyspace: "ks", Name: "dropped"},
		{Change: Updated, Target: TargetTable, Keyspace: "ks", Name: "t"},
		{Change: Created, Target: TargetTable, Keyspace: "new", Name: "t"},
	}
	if diff := cmp.Diff(want, Compare(old, next)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := Compare(next, next); len(got) > 0 {
		t.Errorf("no change gives %v", got)
	}
}
