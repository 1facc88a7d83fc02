// SPDX-License-Identifier: Apache-2.0

package schema

import "testing"

// TestFunctionsOfMasks checks that a mask cannot refer to a function that does not exist when the change is applied.
// The function may have existed when the statement was bound. The test also checks that the function cannot be dropped
// while a column has the mask.
func TestFunctionsOfMasks(t *testing.T) {
	spec := specs(t)
	s, _ := change(t, New(), &CreateKeyspace{Name: "ks", Datacenters: []string{"dc"}, Properties: []Property{{
		Name: "replication", IsMap: true, Map: []Entry{{"class", "SimpleStrategy"}, {"replication_factor", "1"}}}}})
	hide := func(returns string) *CreateFunction {
		return &CreateFunction{Keyspace: "ks", Name: "hide", Args: []FieldSpec{{"x", spec("text")}, {"n", spec("int")}},
			Returns: spec(returns), Nulls: true, Language: "java", Body: "return null;"}
	}
	mask := &MaskSpec{Mask: Mask{Keyspace: "ks", Function: "hide", Types: []*TypeSpec{spec("int")},
		Values: [][]byte{nil}}, Column: spec("text"), Secret: make([]byte, 32)}
	masked := func(m *MaskSpec) *AlterTable {
		return &AlterTable{Keyspace: "ks", Name: "t", Op: AlterMask, Column: "v", Mask: m}
	}
	drop := &DropFunction{Keyspace: "ks", Name: "hide"}
	const gone = "The function ks.hide has changed in the meantime. Retry the statement"
	for _, c := range []struct {
		change Change
		want   string
	}{
		{&CreateTable{Keyspace: "ks", Name: "t", Columns: []ColumnSpec{{Name: "k", Type: spec("int")},
			{Name: "v", Type: spec("text")}}, PartitionKey: []string{"k"}}, "CREATED TABLE t()"},
		{masked(mask), gone},
		{hide("int"), "CREATED FUNCTION hide(text; int)"},
		{masked(mask), gone}, // the result of the function has a different type
		{drop, "DROPPED FUNCTION hide(text; int)"},
		{hide("text"), "CREATED FUNCTION hide(text; int)"},
		{masked(mask), "UPDATED TABLE t()"},
		{drop, "Function 'ks.hide' is still referenced by column masks in tables t"},
		{masked(nil), "UPDATED TABLE t()"},
		{drop, "DROPPED FUNCTION hide(text; int)"},
	} {
		var told string
		if s, told = change(t, s, c.change); told != c.want {
			t.Errorf("%T: %s\n   want %s", c.change, told, c.want)
		}
	}
}
