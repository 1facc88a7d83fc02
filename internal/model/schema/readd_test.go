// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"testing"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestReAdd checks the types with which a dropped column can be added again. Cassandra 5.0 compares the lengths of
// values. Cassandra 4.0 requires only that one type can read values of the other type.
func TestReAdd(t *testing.T) {
	native := cqltype.Native
	vector := func(n int) *cqltype.Type {
		return &cqltype.Type{Kind: cqltype.Vector, Dimension: n, Elems: []*cqltype.Type{native(cqltype.Float)}}
	}
	for _, c := range []struct {
		old, again *cqltype.Type
		in40, in50 bool
	}{
		{native(cqltype.Int), native(cqltype.Int), true, true},
		{native(cqltype.Int), native(cqltype.Text), false, false},
		{native(cqltype.Bigint), native(cqltype.Varint), true, false},
		{native(cqltype.Int), native(cqltype.Varint), true, false},
		{native(cqltype.Timestamp), native(cqltype.Bigint), true, true},
		{native(cqltype.Timeuuid), native(cqltype.UUID), true, true},
		{native(cqltype.Ascii), native(cqltype.Text), true, true},
		{native(cqltype.Text), native(cqltype.Blob), true, true},
		{native(cqltype.UUID), native(cqltype.Blob), true, false},
		{native(cqltype.Boolean), native(cqltype.Blob), true, false},
		{vector(2), vector(3), false, false},
		{vector(2), native(cqltype.Blob), true, false},
		{cqltype.ListOf(native(cqltype.Int)), cqltype.ListOf(native(cqltype.Varint)), true, false},
	} {
		for rel, want := range map[*compat.Release]bool{compat.Cassandra40: c.in40, compat.Cassandra50: c.in50} {
			table := &Table{Keyspace: "ks", Name: "t", ByName: map[string]*Column{},
				Dropped: []DroppedColumn{{Name: "c", ID: 3, Type: c.old, Kind: Regular}}}
			a := &AlterTable{Stamp: Stamp{Release: rel}}
			err := a.checkAdded(table, &ColumnSpec{Name: "c"}, c.again)
			if (err == nil) != want {
				t.Errorf("%s again as %s in %s: %v", c.old, c.again, rel.Name, err)
			}
		}
	}
}
