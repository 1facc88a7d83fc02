// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/feature"
)

// later returns the objects of a schema in the form in which a later build would store them. Every descriptor has a
// member that this build does not know.
func later() map[string][]byte {
	return map[string][]byte{
		rootObject: []byte(`{"format":2,"version":"00000000-0000-0000-0000-000000000000","revision":7,"next_id":1030,"later":"root"}`),
		"keyspace/ks": []byte(`{"name":"ks","replication":{"class":"SimpleStrategy"},"durable_writes":true,"types":[` +
			`{"name":"t","fields":[{"name":"a","type":"int"}],"later":"type"}],"later":"keyspace"}`),
		"table/ks/tab": []byte(
			`{"keyspace":"ks","name":"tab","id":1024,"uuid":"00000000-0000-0000-0000-000000000001","revision":3,"columns":[` +
				`{"name":"k","id":1,"type":"int","kind":0,"later":"key"},{"name":"v","id":2,"type":"int","kind":3,"` +
				`later":{"deep":["column",1]}},` +
				`{"name":"w","id":3,"type":"int","kind":3}],"next_column":5,"dropped":[{"name":"x","id":4,"type":"i` +
				`nt","kind":3,"dropped_at":9,"later":"dropped"}],` +
				`"indexes":[{"name":"i","id":1025,"column":"v","target":0,"kind":"COMPOSITES","later":"index"}],"op` +
				`tions":{"BloomFilterFPChance":0.5,"CRCCheckChance":1,"MinIndexInterval":1,"MaxIndexInterval":2,"la` +
				`ter":"options"},"later":"table"}`,
		),
	}
}

// TestMembersOfLaterBuilds checks that members from a later build survive ALTER TABLE and other DDL. The test also
// checks that dropping an object removes them.
func TestMembersOfLaterBuilds(t *testing.T) {
	store := later()
	s, err := FromObjects(maps.All(store))
	if err != nil {
		t.Fatal(err)
	}
	stamp := Stamp{At: 1}
	intType := &TypeSpec{Kind: cqltype.Int}
	for _, c := range []Change{
		&AlterTable{Stamp: stamp, Keyspace: "ks", Name: "tab", Op: AddColumns,
			Add: []ColumnSpec{{Name: "y", Type: intType}}},
		&AlterTable{Stamp: stamp, Keyspace: "ks", Name: "tab", Op: DropColumns, Drop: []string{"w"}},
		&AlterTable{Stamp: stamp, Keyspace: "ks", Name: "tab", Op: SetOptions,
			Properties: []Property{{Name: "gc_grace_seconds", Value: "5"}}},
		&AlterType{Stamp: stamp, Keyspace: "ks", Name: "t", Op: AddColumns, Add: &FieldSpec{Name: "b", Type: intType}},
		&CreateTable{Stamp: stamp, Keyspace: "ks", Name: "other", ID: UUID{9},
			Columns: []ColumnSpec{{Name: "k", Type: intType}}, PartitionKey: []string{"k"}},
	} {
		next, _, err := Apply(s, c)
		if err != nil {
			t.Fatalf("%T: %v", c, err)
		}
		put, gone, err := Objects(s, next)
		if err != nil || len(gone) > 0 {
			t.Fatal(gone, err)
		}
		maps.Copy(store, put)
		if s, err = FromObjects(maps.All(store)); err != nil {
			t.Fatal(err)
		}
	}
	for object, wants := range map[string][]string{
		rootObject:    {`"later":"root"`},
		"keyspace/ks": {`"later":"keyspace"`, `"later":"type"`},
		"table/ks/tab": {`"later":"key"`, `"later":{"deep":["column",1]}`, `"later":"dropped"`, `"later":"index"`,
			`"later":"options"`, `"later":"table"`, `"y"`},
	} {
		for _, want := range wants {
			if strings.Count(string(store[object]), want) != 1 {
				t.Errorf("%s lost %s: %s", object, want, store[object])
			}
		}
	}
	next, _, err := Apply(s, &DropType{Stamp: stamp, Keyspace: "ks", Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if put, _, err := Objects(s, next); err != nil || strings.Contains(string(put["keyspace/ks"]), `"type"`) {
		t.Errorf("%s %v", put["keyspace/ks"], err)
	}
}

// TestNewerSchema checks that a newer schema format and an object of an unknown kind are rejected as newer.
func TestNewerSchema(t *testing.T) {
	store := later()
	store[rootObject] = fmt.Appendf(nil, `{"format":%d}`, Format+1)
	if _, err := FromObjects(maps.All(store)); !errors.Is(err, feature.ErrNewer) {
		t.Errorf("%v", err)
	}
	store = later()
	store["later/ks/v"] = []byte("{}")
	if _, err := FromObjects(maps.All(store)); !errors.Is(err, feature.ErrNewer) {
		t.Errorf("%v", err)
	}
}
