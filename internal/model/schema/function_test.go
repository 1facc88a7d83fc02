// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ilion-db/ilion/internal/model/cqltype"
)

// change applies a change and returns the next schema and the events.
func change(t *testing.T, s *Schema, c Change) (*Schema, string) {
	t.Helper()
	next, events, err := Apply(s, c)
	if err != nil {
		return s, err.Error()
	}
	var told []string
	for _, e := range events {
		told = append(told, e.Change+" "+e.Target+" "+e.Name+"("+strings.Join(e.ArgList(), "; ")+")")
	}
	return next, strings.Join(told, ", ")
}

// specs returns a parser of type names.
func specs(t *testing.T) func(text string) *TypeSpec {
	return func(text string) *TypeSpec {
		t.Helper()
		s, err := ParseType(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestFunctions creates and drops functions and aggregates, and compares the events and errors with Cassandra 5.0.5.
// The test also checks that types and functions in use cannot be dropped. Records must survive encoding, including
// members from a later build.
func TestFunctions(t *testing.T) {
	spec := specs(t)
	s, _ := change(t, New(), &CreateKeyspace{Name: "ks", Datacenters: []string{"dc"}, Properties: []Property{{
		Name: "replication", IsMap: true, Map: []Entry{{"class", "SimpleStrategy"}, {"replication_factor", "1"}}}}})
	s, _ = change(t, s, &CreateType{Keyspace: "ks", Name: "u", Fields: []FieldSpec{{"a", spec("int")}}})
	plus := CreateFunction{Keyspace: "ks", Name: "plus", Args: []FieldSpec{{"s", spec("int")}, {"x", spec("int")}},
		Returns: spec("int"), Nulls: true, Language: "java", Body: "return s;"}
	geta := CreateFunction{Keyspace: "ks", Name: "geta", Args: []FieldSpec{{"x",
		&TypeSpec{Kind: cqltype.UDT, Name: "u"}}}, Returns: spec("int"), Language: "java", Body: "return 1;"}
	twice, strict, other := plus, plus, plus
	strict.OrReplace, strict.Nulls = true, false
	other.OrReplace, other.Returns = true, spec("text")
	replaced := plus
	replaced.OrReplace, replaced.Body = true, "return x;"
	frozen := plus
	frozen.Args = []FieldSpec{{"x", spec("frozen<list<int>>")}}
	total := CreateAggregate{Keyspace: "ks", Name: "total", Args: []*TypeSpec{spec("int")}, StateFunc: "plus",
		State: spec("int"), Initial: func(*Keyspace, *cqltype.Type) ([]byte, error) { return []byte{0, 0, 0, 1}, nil }}
	lost := total
	lost.Name, lost.StateFunc = "lost", "nosuch"
	for _, c := range []struct {
		change Change
		want   string
	}{
		{&plus, "CREATED FUNCTION plus(int; int)"},
		{&geta, "CREATED FUNCTION geta(u)"},
		{&twice, "Function 'plus' already exists"},
		{&strict, "Function 'plus' must have RETURNS NULL ON NULL INPUT directive"},
		{&other, "Cannot replace function 'plus', the new return type text is not compatible with the return type int of " +
			"existing function"},
		{&replaced, "UPDATED FUNCTION plus(int; int)"},
		{&replaced, ""},
		{&frozen, "Argument 'frozen<list<int>>' cannot be frozen; remove frozen<> modifier from 'frozen<list<int>>'"},
		{&total, "CREATED AGGREGATE total(int)"},
		{&total, "Aggregate 'total' already exists"},
		{&lost, "State function ks.nosuch(int, int) doesn't exist"},
		{&DropFunction{Keyspace: "ks", Name: "plus"}, "Function 'ks.plus' is still referenced by aggregates ks.total"},
		{&DropType{Keyspace: "ks", Name: "u"}, "Cannot drop user type 'ks.u' as it is still used by functions ks.geta"},
		{&AlterType{Keyspace: "ks", Name: "u", Op: AddColumns, Add: &FieldSpec{"b", spec("int")}}, "UPDATED TYPE u()"},
		{&DropFunction{Keyspace: "ks", Name: "total"}, "Function 'ks.total' doesn't exist"},
		{&DropFunction{Keyspace: "ks", Name: "nosuch", IfExists: true}, ""},
	} {
		var told string
		if s, told = change(t, s, c.change); told != c.want {
			t.Errorf("%T: %s\n   want %s", c.change, told, c.want)
		}
	}
	if f := s.Keyspace("ks").FunctionsNamed("geta")[0]; len(f.Args[0].Fields) != 2 {
		t.Errorf("the type of a function does not follow ALTER TYPE: %v", f.Args[0].Fields)
	}
	put, _, err := Objects(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	key := "function/ks/total(int)"
	put[key] = []byte(strings.Replace(string(put[key]), "{", `{"later":[1],`, 1))
	again, err := FromObjects(maps.All(put))
	if err != nil {
		t.Fatal(err)
	}
	// The objects differ in the member from a later build.
	if events := Compare(s, again); len(events) != 1 || events[0].Name != "total" {
		t.Errorf("reading the records again changes %v", events)
	}
	objects, _, err := Objects(nil, again)
	if err != nil || !strings.Contains(string(objects[key]), `"later":[1]`) {
		t.Errorf("fields of a later build are lost: %s, %v", objects[key], err)
	}
	delete(objects, key)
	delete(put, key)
	if diff := cmp.Diff(put, objects); diff != "" {
		t.Error(diff)
	}
	next, told := change(t, again, &DropFunction{Keyspace: "ks", Name: "total", Aggregate: true})
	_, gone, err := Objects(again, next)
	if told != "DROPPED AGGREGATE total(int)" || err != nil || len(gone) != 1 || gone[0] != key {
		t.Errorf("%s, %v, %v", told, gone, err)
	}
}
