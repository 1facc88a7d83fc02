// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/model/token"
)

// withContainer returns a schema with a database that contains one container with a unique key.
func withContainer(t *testing.T) *Schema {
	t.Helper()
	s := New()
	for _, c := range []Change{
		&CreateKeyspace{Name: "d", Database: &Database{ID: "d", At: 7}, Properties: []Property{{Name: "replication",
			IsMap: true, Map: []Entry{{Key: "class", Value: "SimpleStrategy"},
				{Key: "replication_factor", Value: "1"}}}}},
		&CreateContainer{Keyspace: "d", Name: "c", ID: UUID{1}, Unique: 1, Container: Container{ID: "c",
			Paths: []string{"/k", "/l"}, Scheme: epk.MultiHash, At: 8,
			Definition: json.RawMessage(`{"id":"c","later":{"a":1}}`)}},
	} {
		next, _, err := Apply(s, c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return s
}

// TestContainers checks a container's columns, ring positions, and IDs. The test also checks that encoding preserves
// the container's record, including members from a later build. A build that does not support containers must reject
// the record as newer.
func TestContainers(t *testing.T) {
	s := withContainer(t)
	c := s.Table("d", "c")
	if c.Column("/l") == nil || c.Column(ItemBody) == nil || c.UniqueIndex(0) == nil || len(c.ShownIndexes()) != 0 {
		t.Fatalf("the container is %+v", c)
	}
	n, unique := s.Keyspace("d").Database.Number, c.UniqueIndex(0).ID
	if n == 0 || n == c.ID || n == unique || c.ID == unique {
		t.Errorf("ids %d, %d and %d", n, c.ID, unique)
	}
	k := epk.Key{epk.Text("a"), epk.Float(1)}
	if got := c.Token(epk.AppendKey(nil, k)); got != epk.MultiHash.Token(k) {
		t.Errorf("position of the key: got %v", got)
	}
	if plain := (&Table{}); plain.Token([]byte("a")) != token.Hash([]byte("a")) {
		t.Error("tables have other tokens")
	}
	put, _, err := Objects(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	key := itemsPrefix + "d/c"
	put[key] = []byte(strings.Replace(string(put[key]), `"scheme":`, `"later":[1],"scheme":`, 1))
	back, err := FromObjects(maps.All(put))
	if err != nil {
		t.Fatal(err)
	}
	got := back.Table("d", "c").Container
	if got == nil || got.ID != "c" || got.Scheme != epk.MultiHash ||
		string(got.Definition) != `{"id":"c","later":{"a":1}}` ||
		*back.Keyspace("d").Database != *s.Keyspace("d").Database {
		t.Fatalf("%+v", got)
	}
	changed, _, err := Apply(back, &ReplaceContainer{Keyspace: "d", Name: "c", Change: func(c *Container,
		in *Replacing) error {
		c.Scripts = append(c.Scripts, Script{Kind: 1, ID: "p", Number: in.Number(), Definition: json.RawMessage(`{}`)})
		return nil
	}})
	if err != nil || changed.NextID != back.NextID+1 {
		t.Fatalf("%v", err)
	}
	again, gone, err := Objects(back, changed)
	if err != nil || len(gone) > 0 || !strings.Contains(string(again[key]), `"later":[1]`) {
		t.Errorf("a change of the container is recorded as %s, without %v, %v", again[key], gone, err)
	}
	_, err = FromObjects(maps.All(map[string][]byte{rootObject: put[rootObject], "later/d/c": put[key]}))
	if !errors.Is(err, feature.ErrNewer) {
		t.Errorf("a record of an unknown kind: %v", err)
	}
}

// TestContainersAndTables checks that CQL cannot make unsupported changes to a container. The test also checks that a
// container can be dropped, and that a table with the same name replaces the container's record.
func TestContainersAndTables(t *testing.T) {
	s := withContainer(t)
	for _, c := range []Change{
		&AlterTable{Keyspace: "d", Name: "c", Op: SetOptions},
		&CreateIndex{Keyspace: "d", Table: "c", Targets: []TargetSpec{{Column: ItemBody}}},
		&DropIndex{Keyspace: "d", Name: s.Table("d", "c").UniqueIndex(0).Name},
	} {
		if _, _, err := Apply(s, c); err == nil || !strings.Contains(err.Error(), "container of items") {
			t.Errorf("%T: %v", c, err)
		}
	}
	dropped, _, err := Apply(s, &DropTable{Keyspace: "d", Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	table := &CreateTable{Keyspace: "d", Name: "c", ID: UUID{2}, PartitionKey: []string{"k"},
		Columns: []ColumnSpec{{Name: "k", Type: s.Table("d", "c").encode().Columns[0].Type}}}
	next, _, err := Apply(dropped, table)
	if err != nil {
		t.Fatal(err)
	}
	put, gone, err := Objects(s, next)
	if err != nil || put[tablePrefix+"d/c"] == nil || len(gone) != 1 || gone[0] != itemsPrefix+"d/c" {
		t.Errorf("put %v, removed %v, %v", put, gone, err)
	}
}
