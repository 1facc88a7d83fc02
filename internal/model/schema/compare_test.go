// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestCompare checks that each kind of difference results in one event. An equal decoded object must result in no
// event.
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
		{Change: Dropped, Target: TargetTable, Keyspace: "gone", Name: "t"},
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

// TestCompareDropped checks that clients are notified of all contents of a dropped keyspace in Cassandra's order. The
// test also checks the notification of a dropped view whose base table remains.
func TestCompareDropped(t *testing.T) {
	base := &Table{Keyspace: "ks", Name: "b", ID: 1, Revision: 1}
	followed := *base
	followed.Revision, followed.Indexes = 2, map[string]*Index{"to v": {Name: "to v", ID: 7, Kind: ViewKind}}
	view := &Table{Keyspace: "ks", Name: "v", ID: 2, Revision: 2, View: &View{Base: "b"}}
	of := func(ks *Keyspace) *Schema { return &Schema{Keyspaces: map[string]*Keyspace{"ks": ks}} }
	plain := of(&Keyspace{Name: "ks", Tables: map[string]*Table{"b": base}})
	viewed := of(&Keyspace{Name: "ks", Tables: map[string]*Table{"b": &followed, "v": view},
		Types: map[string]*cqltype.Type{"u": {Kind: cqltype.UDT, Keyspace: "ks", Name: "u"}},
		Functions: []*Function{{Keyspace: "ks", Name: "f"},
			{Keyspace: "ks", Name: "a", Aggregate: &Aggregate{}}}})
	indexed := followed
	indexed.Revision, indexed.Indexes = 3, map[string]*Index{"to v": followed.Indexes["to v"], "i": {Name: "i", ID: 8}}
	for name, c := range map[string]struct {
		old, next *Schema
		want      []Event
	}{
		"view created": {plain, viewed, []Event{
			{Change: Created, Target: TargetType, Keyspace: "ks", Name: "u"},
			{Change: Created, Target: TargetTable, Keyspace: "ks", Name: "v"},
			{Change: Created, Target: TargetFunction, Keyspace: "ks", Name: "f"},
			{Change: Created, Target: TargetAggregate, Keyspace: "ks", Name: "a"},
		}},
		"index created": {viewed, of(&Keyspace{Name: "ks", Tables: map[string]*Table{"b": &indexed, "v": view},
			Types: viewed.Keyspaces["ks"].Types, Functions: viewed.Keyspaces["ks"].Functions}), []Event{
			{Change: Updated, Target: TargetTable, Keyspace: "ks", Name: "b"},
		}},
		"keyspace dropped": {viewed, &Schema{}, []Event{
			{Change: Dropped, Target: TargetAggregate, Keyspace: "ks", Name: "a"},
			{Change: Dropped, Target: TargetFunction, Keyspace: "ks", Name: "f"},
			{Change: Dropped, Target: TargetTable, Keyspace: "ks", Name: "v"},
			{Change: Dropped, Target: TargetTable, Keyspace: "ks", Name: "b"},
			{Change: Dropped, Target: TargetType, Keyspace: "ks", Name: "u"},
			{Change: Dropped, Target: TargetKeyspace, Keyspace: "ks"},
		}},
	} {
		if diff := cmp.Diff(c.want, Compare(c.old, c.next)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
