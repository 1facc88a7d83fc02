// SPDX-License-Identifier: Apache-2.0

package schemachange

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/schema"
)

// TestTableChanges checks the changes of stored tables that a schema change causes. Tables are created, altered, and
// dropped, and are dropped and recreated in one step, with their keyspace or in an existing keyspace. Virtual and
// unchanged tables are skipped.
func TestTableChanges(t *testing.T) {
	table := func(id uint32, indexes ...uint32) *schema.Table {
		out := &schema.Table{ID: id, Indexes: map[string]*schema.Index{}}
		for _, ix := range indexes {
			out.Indexes[string(rune('a'+ix))] = &schema.Index{ID: ix}
		}
		return out
	}
	stays, dropped, before, after, altered := table(1), table(2, 7), table(3, 8), table(9), table(4, 10)
	virtual := &schema.Table{ID: 5, Virtual: true}
	old := schema.New().With(
		&schema.Keyspace{Name: "ks", Tables: map[string]*schema.Table{"stays": stays, "dropped": dropped,
			"again": before, "altered": altered}},
		&schema.Keyspace{Name: "gone", Tables: map[string]*schema.Table{"t": table(6), "v": virtual}},
	)
	more := table(4, 10, 11)
	next := schema.New().With(
		&schema.Keyspace{Name: "ks", Tables: map[string]*schema.Table{"stays": stays, "again": after, "altered": more,
			"v": virtual}},
		&schema.Keyspace{Name: "new", Tables: map[string]*schema.Table{"t": table(12, 13)}},
	)
	changes := tableChanges(old, next)
	var got [][2]uint32
	for _, c := range changes {
		var ids [2]uint32
		if c.was != nil {
			ids[0] = c.was.ID
		}
		if c.is != nil {
			ids[1] = c.is.ID
		}
		got = append(got, ids)
	}
	if diff := cmp.Diff([][2]uint32{{2, 0}, {3, 0}, {4, 4}, {6, 0}, {0, 9}, {0, 12}}, got); diff != "" {
		t.Error(diff)
	}
	if fresh := newIndexes(changes); len(fresh) != 1 || fresh[0] != more.Indexes[string(rune('a'+11))] {
		t.Errorf("new indexes of old tables: %+v", fresh)
	}
	if again := tableChanges(next, next); len(again) != 0 {
		t.Errorf("nothing has changed: %+v", again)
	}
}
