// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

var intType = cqltype.Native(cqltype.Int)

const udtKind = cqltype.UDT

// unexported ignores the unused fields for members from later builds.
var unexported = cmpopts.IgnoreUnexported(Schema{}, Keyspace{}, Table{}, Column{}, DroppedColumn{}, Index{},
	TableOptions{})

// TestInvariants checks the package's guarantees for random sequences of changes. No change modifies the schema to
// which it is applied (SM1). No ID is assigned twice (SM2). A change always has the same effect (SM3). The test also
// checks that encoding and decoding a schema results in an equal schema. It encodes the schema completely and
// incrementally.
func TestInvariants(t *testing.T) {
	done := map[string]int{}
	check := func(t *rapid.T) {
		s := twoKeyspaces(t)
		ids := map[uint32]UUID{} // contains the IDs of all tables and indexes that have ever existed
		// columns maps the UUIDs of tables to the IDs of all columns that have ever existed, with their creation
		// times.
		columns := map[UUID]map[uint32]string{}
		store, _, _ := Objects(nil, s)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for n := range 25 {
			c := drawChange(t, s, rng, n)
			before := encode(t, s)
			next, events, err := Apply(s, c)
			if diff := cmp.Diff(before, encode(t, s)); diff != "" {
				t.Fatalf("%T changed the schema it started from:\n%s", c, diff)
			}
			sameAgain(t, s, next, c)
			if err != nil || next == s {
				if next != s || len(events) > 0 {
					t.Fatalf("%T had no effect and returned %v", c, events)
				}
				continue
			}
			done[fmt.Sprintf("%T", c)]++
			if next.Revision != s.Revision+1 || next.Version != c.stamp().Version || len(events) == 0 {
				t.Fatalf("%T: revision %d after %d, version %s, %d events", c, next.Revision, s.Revision,
					next.Version, len(events))
			}
			checkIDs(t, s, next, ids, columns)
			checkTables(t, s, next)
			checkStore(t, s, next, store)
			s = next
		}
	}
	// Changes are random, and some kinds of changes rarely succeed. The test therefore continues until each kind has
	// succeeded.
	for tries := 0; tries == 0 || unproven(done) != "" && tries < 20; tries++ {
		rapid.Check(t, check)
	}
	if kind := unproven(done); kind != "" {
		t.Errorf("no %s succeeded, so the test is incomplete (%v)", kind, done)
	}
}

// unproven returns a kind of change that has never succeeded, or an empty string.
func unproven(done map[string]int) string {
	for _, kind := range []string{
		"CreateKeyspace", "AlterKeyspace", "DropKeyspace", "CreateTable", "AlterTable", "DropTable", "CreateType",
		"AlterType", "DropType", "CreateIndex", "DropIndex",
	} {
		if done["*schema."+kind] == 0 {
			return kind
		}
	}
	return ""
}

func twoKeyspaces(t *rapid.T) *Schema {
	s := New()
	for _, name := range []string{"ks1", "ks2"} {
		var err error
		if s, _, err = Apply(s, &CreateKeyspace{Name: name, Properties: []Property{{
			Name: "replication", IsMap: true,
			Map: []Entry{{"class", "SimpleStrategy"}, {"replication_factor", "1"}},
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// encode returns all stored objects of a schema.
func encode(t *rapid.T, s *Schema) map[string]string {
	put, _, err := Objects(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string, len(put))
	for k, b := range put {
		out[k] = string(b)
	}
	return out
}

// sameAgain checks that a change has the same effect regardless of where and when it is applied.
func sameAgain(t *rapid.T, s, want *Schema, c Change) {
	got, _, _ := Apply(s, c)
	if diff := cmp.Diff(encode(t, want), encode(t, got)); diff != "" {
		t.Fatalf("%T has another effect the second time (-want +got):\n%s", c, diff)
	}
}

func checkIDs(t *rapid.T, old, s *Schema, ids map[uint32]UUID, columns map[UUID]map[uint32]string) {
	note := func(id uint32, owner UUID) {
		if have, ok := ids[id]; ok && have != owner || id >= s.NextID {
			t.Fatalf("id %d is used twice or is not below %d", id, s.NextID)
		}
		ids[id] = owner
	}
	for ks := range s.All() {
		for _, table := range ks.SortedTables() {
			note(table.ID, table.UUID)
			for _, ix := range table.SortedIndexes() {
				note(ix.ID, table.UUID)
				if before := old.Table(ks.Name, table.Name); before != nil && before.Indexes[ix.Name] == nil &&
					ix.ID < old.NextID {
					t.Fatalf("new index %s has the old id %d", ix.Name, ix.ID)
				}
			}
			if columns[table.UUID] == nil {
				columns[table.UUID] = map[uint32]string{}
			}
			seen := columns[table.UUID]
			live := map[uint32]bool{}
			for c := range table.Columns() {
				if seen[c.ID] == "dropped" || live[c.ID] || c.ID >= table.NextColumn {
					t.Fatalf("%s.%s: column id %d was used before", table, c.Name, c.ID)
				}
				live[c.ID] = true
			}
			for _, d := range table.Removed() {
				if d.Upto != cqltype.AllDropped {
					continue // a dropped column can be added again with its ID
				}
				if live[d.Column] {
					t.Fatalf("%s: dropped id %d is alive", table, d.Column)
				}
				seen[d.Column] = "dropped"
			}
		}
	}
}

// checkTables checks that tables are consistent. It also checks that the revision of a table changes with the table.
func checkTables(t *rapid.T, old, s *Schema) {
	for ks := range s.All() {
		for _, table := range ks.SortedTables() {
			n := 0
			for c := range table.Columns() {
				n++
				if table.ByName[c.Name] != c {
					t.Fatalf("%s: ByName does not have %s", table, c.Name)
				}
				for _, u := range ks.SortedTypes() {
					checkCurrent(t, c.Type, u)
				}
			}
			if n != len(table.ByName) {
				t.Fatalf("%s: ByName has %d columns of %d", table, len(table.ByName), n)
			}
			byName := func(a, b *Column) int { return cmpNames(a.Name, b.Name) }
			if !slices.IsSortedFunc(table.Statics, byName) || !slices.IsSortedFunc(table.Regulars, byName) {
				t.Fatalf("%s: columns are not in order", table)
			}
			before := old.Table(ks.Name, table.Name)
			if (before == table) != (table.Revision < s.Revision) {
				t.Fatalf("%s: revision %d at %d does not say whether it changed", table, table.Revision, s.Revision)
			}
		}
	}
}

func cmpNames(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

// checkCurrent checks that nested user-defined types have the current definition.
func checkCurrent(t *rapid.T, typ, udt *cqltype.Type) {
	if typ.Kind == cqltype.UDT && typ.Name == udt.Name {
		want := udt
		if typ.Frozen {
			want = udt.Freeze()
		}
		if !typ.Equal(want) {
			t.Fatalf("type %s is an old one", udt.Name)
		}
	}
	for _, e := range typ.Elems {
		checkCurrent(t, e, udt)
	}
}

// checkStore updates only the changed objects in a store, and checks that the store remains equal to the schema.
func checkStore(t *rapid.T, old, s *Schema, store map[string][]byte) {
	put, gone, err := Objects(old, s)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(store, put)
	for _, key := range gone {
		delete(store, key)
	}
	got, err := FromObjects(maps.All(store))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(encode(t, s), encode(t, got)); diff != "" {
		t.Fatalf("what was stored differs (-want +got):\n%s", diff)
	}
	// Compare the stored schema in depth, because the encoding could omit a field.
	if rapid.IntRange(0, 5).Draw(t, "compare deeply") == 5 {
		if diff := cmp.Diff(s, got, cmpopts.EquateEmpty(), unexported); diff != "" {
			t.Fatalf("what was stored differs (-want +got):\n%s", diff)
		}
	}
}
