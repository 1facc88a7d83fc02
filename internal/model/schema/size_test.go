// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"testing"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// TestTypesHaveABound checks that types that repeatedly contain other types are rejected before they grow too large.
// The test checks every statement that could create such types. Smaller types must be accepted.
func TestTypesHaveABound(t *testing.T) {
	s := New()
	must := func(c Change) {
		t.Helper()
		next, _, err := Apply(s, c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	refused := func(c Change) {
		t.Helper()
		if _, _, err := Apply(s, c); err == nil {
			t.Fatalf("%#v was done", c)
		}
	}
	native := func(k cqltype.Kind) *TypeSpec { return &TypeSpec{Kind: k} }
	frozen := func(name string) *TypeSpec { return &TypeSpec{Kind: cqltype.UDT, Name: name, Frozen: true} }
	must(&CreateKeyspace{Name: "ks", Properties: []Property{{Name: "replication", IsMap: true,
		Map: []Entry{{"class", "SimpleStrategy"}, {"replication_factor", "1"}}}}})
	must(&CreateType{Keyspace: "ks", Name: "t0", Fields: []FieldSpec{{"a", native(cqltype.Int)}}})
	twice := func(i int) *CreateType {
		inner := fmt.Sprint("t", i-1)
		return &CreateType{Keyspace: "ks", Name: fmt.Sprint("t", i),
			Fields: []FieldSpec{{"a", frozen(inner)}, {"b", frozen(inner)}}}
	}
	for i := 1; i <= 14; i++ {
		must(twice(i))
	}
	refused(twice(15))
	// With one more field in each of its innermost types, t14 would also become too large.
	refused(&AlterType{Keyspace: "ks", Name: "t2", Op: AddColumns, Add: &FieldSpec{"c", frozen("t1")}})
	table := &CreateTable{Keyspace: "ks", Name: "t", PartitionKey: []string{"k"},
		Columns: []ColumnSpec{{Name: "k", Type: native(cqltype.Int)}}}
	for i := range 5 {
		table.Columns = append(table.Columns, ColumnSpec{Name: fmt.Sprint("v", i), Type: frozen("t14")})
	}
	must(table)
	refused(&AlterTable{Keyspace: "ks", Name: "t", Op: AddColumns,
		Add: []ColumnSpec{{Name: "more", Type: frozen("t14")}}})
	table.Name, table.Columns = "u", append(table.Columns, ColumnSpec{Name: "more", Type: frozen("t14")})
	refused(table)
	wide := &CreateType{Keyspace: "ks", Name: "wide"}
	for i := range 10_000 {
		wide.Fields = append(wide.Fields, FieldSpec{fmt.Sprint("f", i), native(cqltype.Int)})
	}
	must(wide)
}
