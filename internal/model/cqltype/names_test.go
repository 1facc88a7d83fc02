// SPDX-License-Identifier: Apache-2.0

package cqltype

import "testing"

// TestNames compares the texts of types with system_schema. It also compares the types' classes with Cassandra's
// syntax.
func TestNames(t *testing.T) {
	const m = "org.apache.cassandra.db.marshal."
	point := UDTOf("ks", "point", []string{"x", "y"}, []*Type{Native(Int), ListOf(Native(Int)).Freeze()})
	for _, c := range []struct {
		typ   *Type
		name  string
		class string
	}{
		{Native(Text), "text", m + "UTF8Type"},
		{Native(Duration), "duration", m + "DurationType"},
		{ListOf(Native(Int)), "list<int>", m + "ListType(" + m + "Int32Type)"},
		{ListOf(Native(Int)).Freeze(), "frozen<list<int>>", m + "FrozenType(" + m + "ListType(" + m + "Int32Type))"},
		{MapOf(Native(Text), SetOf(Native(Int)).Freeze()), "map<text, frozen<set<int>>>",
			m + "MapType(" + m + "UTF8Type," + m + "FrozenType(" + m + "SetType(" + m + "Int32Type)))"},
		{ListOf(SetOf(Native(Int))).Freeze(), "frozen<list<frozen<set<int>>>>", m + "FrozenType(" + m + "ListType(" +
			m + "SetType(" + m + "Int32Type)))"},
		{TupleOf(Native(Int), TupleOf(Native(Text), ListOf(Native(Int)))),
			"frozen<tuple<int, frozen<tuple<text, frozen<list<int>>>>>>", m + "TupleType(" + m + "Int32Type," + m +
				"TupleType(" + m + "UTF8Type," + m + "ListType(" + m + "Int32Type)))"},
		{point, "point", m + "UserType(ks,706f696e74,78:" + m + "Int32Type,79:" + m + "FrozenType(" + m + "ListType(" +
			m + "Int32Type)))"},
		{point.Freeze(), "frozen<point>", m + "FrozenType(" + m + "UserType(ks,706f696e74,78:" + m + "Int32Type,79:" +
			m + "ListType(" + m + "Int32Type)))"},
		{UDTOf("ks", "Case", nil, nil), `"Case"`, m + "UserType(ks,43617365)"},
		{CustomOf("a.B"), "'a.B'", "a.B"},
	} {
		if got := c.typ.String(); got != c.name {
			t.Errorf("%s, want %s", got, c.name)
		}
		if got := c.typ.JavaClass(); got != c.class {
			t.Errorf("%s: %s, want %s", c.name, got, c.class)
		}
	}
	for _, name := range []string{"int", "VARCHAR", "TimeUUID"} {
		if ByName(name) == nil {
			t.Errorf("%s is unknown", name)
		}
	}
	if ByName("varchar") != Native(Text) || ByName("empty") != nil || ByName("list") != nil || Native(List) != nil {
		t.Error("names of natives are wrong")
	}
}

// TestFrozenness checks which types are stored as several cells. It also checks that freezing includes nested types.
func TestFrozenness(t *testing.T) {
	inner := SetOf(Native(Int))
	open := MapOf(Native(Int), inner)
	frozen := open.Freeze()
	if !open.MultiCell() || frozen.MultiCell() || open.Frozen || inner.Frozen {
		t.Error("Freeze changed the type or did not return a new type")
	}
	if !frozen.Elems[1].Frozen || frozen.Freeze() != frozen || Native(Int).Freeze() != Native(Int) {
		t.Error("Freeze does not freeze nested types, or is not idempotent")
	}
	if open.Equal(frozen) || !frozen.Equal(MapOf(Native(Int), SetOf(Native(Int))).Freeze()) {
		t.Error("Equal does not tell types apart by their parts")
	}
	if TupleOf(Native(Int)).MultiCell() || TupleOf(Native(Int)).IsCollection() {
		t.Error("a tuple is one cell")
	}
	udt := UDTOf("ks", "u", []string{"a"}, []*Type{Native(Duration)})
	if outer := ListOf(udt.Freeze()); !outer.References("ks", "u") || outer.References("ks", "v") ||
		!outer.Contains(Duration) || outer.Contains(Counter) {
		t.Error("references are not found inside")
	}
	if udt.FieldIndex("a") != 0 || udt.FieldIndex("b") != -1 {
		t.Error("fields are not found")
	}
}

func TestQuoteName(t *testing.T) {
	for name, want := range map[string]string{"abc": "abc", "a1_": "a1_", "Abc": `"Abc"`, "1a": `"1a"`,
		"select": `"select"`, `a"b`: `"a""b"`, "": `""`, "_a": `"_a"`} {
		if got := QuoteName(name); got != want {
			t.Errorf("%q is written %s, want %s", name, got, want)
		}
	}
}
