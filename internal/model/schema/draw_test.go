// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"math/rand/v2"

	"pgregory.net/rapid"
)

// drawName draws from a small set of names, so changes often affect objects that earlier changes created.
func drawName(t *rapid.T, label string, names ...string) string {
	return rapid.SampledFrom(names).Draw(t, label)
}

func drawKeyspace(t *rapid.T) string { return drawName(t, "keyspace", "ks1", "ks1", "ks1", "ks2") }
func drawTable(t *rapid.T) string    { return drawName(t, "table", "t1", "t2") }
func drawType(t *rapid.T) string     { return drawName(t, "type", "u1", "u2", "int") }
func drawColumn(t *rapid.T) string   { return drawName(t, "column", "a", "b", "c", "E f") }

func drawSpec(t *rapid.T, depth int) *TypeSpec {
	texts := []string{"int", "int", "text", "blob", "duration", "frozen<list<int>>", "set<text>",
		"map<text, frozen<list<int>>>", "tuple<int, text>"}
	if depth > 0 && rapid.IntRange(0, 2).Draw(t, "composed") == 0 {
		inner, _ := drawSpec(t, depth-1).MarshalText()
		form := rapid.SampledFrom([]string{"list<%s>", "frozen<set<%s>>", "map<int, %s>", "tuple<int, %s>"}).Draw(t,
			"form")
		texts = []string{fmt.Sprintf(form, inner)}
	} else if rapid.IntRange(0, 3).Draw(t, "udt") == 0 {
		return &TypeSpec{Kind: udtKind, Name: drawType(t), Frozen: rapid.IntRange(0, 3).Draw(t, "frozen") > 0}
	} else if rapid.IntRange(0, 20).Draw(t, "odd") == 0 {
		texts = []string{"counter", "list<duration>"}
	}
	spec, err := ParseType(rapid.SampledFrom(texts).Draw(t, "type text"))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func drawColumns(t *rapid.T) []ColumnSpec {
	names := rapid.SliceOfNDistinct(rapid.Custom(drawColumn), 1, 3, rapid.ID).Draw(t, "names")
	if rapid.IntRange(0, 20).Draw(t, "twice") == 0 {
		names = append(names, names[0])
	}
	columns := make([]ColumnSpec, len(names))
	for i, name := range names {
		columns[i] = ColumnSpec{Name: name, Type: drawSpec(t, 2), Static: rapid.IntRange(0, 4).Draw(t, "static") == 0}
	}
	return columns
}

func drawProperties(t *rapid.T) []Property {
	return rapid.SampledFrom([][]Property{
		nil,
		{{Name: "comment", Value: "x"}},
		{{Name: "default_time_to_live", Value: "5"}, {Name: "cosmosdb_provisioned_throughput", Value: "400"}},
		{{Name: "extensions", IsMap: true, Map: []Entry{{"e", "0x01"}}}},
		{{Name: "gc_grace_seconds", Value: "-1"}},
	}).Draw(t, "properties")
}

// kinds contains the changes of drawChange by weight. The generator rng selects a kind, because rapid strongly prefers
// the first choices.
var kinds = []int{0, 1, 2, 3, 3, 3, 5, 5, 5, 6, 6, 7, 8, 8, 9, 10, 10, 11, 11, 12, 12, 13, 14, 14, 14}

// drawChange draws a change of any kind. Many of these changes are rejected.
func drawChange(t *rapid.T, s *Schema, rng *rand.Rand, n int) Change {
	stamp := Stamp{Version: UUID{1, byte(n >> 8), byte(n)}, At: int64(1000 + n)}
	lenient := rapid.Bool().Draw(t, "if exists")
	ks := drawKeyspace(t)
	switch kinds[rng.IntN(len(kinds))] {
	case 0:
		return &CreateKeyspace{Stamp: stamp, Name: ks, IfNotExists: lenient, Datacenters: []string{"dc"},
			Properties: []Property{{
				Name:  "replication",
				IsMap: true, Map: []Entry{{"class", "NetworkTopologyStrategy"}, {"replication_factor", "3"}},
			}}}
	case 1:
		return &AlterKeyspace{Stamp: stamp, Name: ks, IfExists: lenient,
			Properties: []Property{{Name: "durable_writes", Value: "false"}}}
	case 2:
		if n%10 > 0 {
			return &AlterKeyspace{Stamp: stamp, Name: ks,
				Properties: []Property{{Name: "cosmosdb_provisioned_throughput", Value: "1000"}}}
		}
		return &DropKeyspace{Stamp: stamp, Name: ks, IfExists: lenient}
	case 3, 4:
		return &CreateTable{
			Stamp: stamp, Keyspace: ks, Name: drawTable(t), IfNotExists: lenient, ID: UUID{2, byte(n >> 8), byte(n)},
			Columns: append(drawColumns(t), ColumnSpec{Name: "k", Type: SpecOf(intType)},
				ColumnSpec{Name: "l", Type: SpecOf(intType)}),
			PartitionKey: []string{"k"}, Clustering: []string{"l"}, Order: []OrderSpec{{"l", lenient}},
			Properties: drawProperties(t),
		}
	case 5:
		return &AlterTable{Stamp: stamp, Keyspace: ks, Name: drawTable(t), Op: AddColumns, IfColumn: lenient,
			Add: drawColumns(t)}
	case 6, 7:
		return &AlterTable{Stamp: stamp, Keyspace: ks, Name: drawTable(t), Op: DropColumns, IfColumn: lenient,
			Drop: []string{drawColumn(t)}, DroppedAt: rapid.SampledFrom([]int64{0, 0, 7}).Draw(t, "time of the drop")}
	case 8:
		if lenient {
			return &AlterTable{Stamp: stamp, Keyspace: ks, Name: drawTable(t), Op: RenameColumns,
				Rename: []RenameSpec{{"l", "l" + drawColumn(t)}}}
		}
		return &AlterTable{Stamp: stamp, Keyspace: ks, Name: drawTable(t), Op: SetOptions,
			Properties: drawProperties(t)}
	case 9:
		return &DropTable{Stamp: stamp, Keyspace: ks, Name: drawTable(t), IfExists: lenient}
	case 10:
		return &CreateType{Stamp: stamp, Keyspace: ks, Name: drawType(t), IfNotExists: lenient,
			Fields: []FieldSpec{{"f", drawSpec(t, 2)}, {"g", drawSpec(t, 1)}}}
	case 11:
		if lenient {
			return &AlterType{Stamp: stamp, Keyspace: ks, Name: drawType(t), Op: AddColumns,
				Add: &FieldSpec{drawColumn(t), drawSpec(t, 1)}}
		}
		return &AlterType{Stamp: stamp, Keyspace: ks, Name: drawType(t), Op: RenameColumns,
			Rename: []RenameSpec{{"f", "f" + drawColumn(t)}}}
	case 12:
		drop := &DropIndex{Stamp: stamp, Keyspace: ks, Name: drawTable(t) + "_" + drawColumn(t) + "_idx",
			IfExists: lenient}
		for k := range s.All() { // a random name rarely matches an existing index
			for _, table := range k.SortedTables() {
				for _, ix := range table.SortedIndexes() {
					drop.Keyspace, drop.Name = k.Name, ix.Name
				}
			}
		}
		return drop
	case 13:
		return &DropType{Stamp: stamp, Keyspace: ks, Name: drawType(t), IfExists: lenient}
	}
	return &CreateIndex{Stamp: stamp, Keyspace: ks, Table: drawTable(t), IfNotExists: lenient,
		Targets: []TargetSpec{{Column: drawColumn(t)}}}
}
