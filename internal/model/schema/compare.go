// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
)

// Compare returns the events for the changes from old to s. Every node sends these events to its clients. Objects at
// the same address are considered equal. Dropped keyspaces come first. The contents of each dropped keyspace precede
// the keyspace. Keyspaces, types, tables, functions, and aggregates follow, each sorted by name.
func Compare(old, s *Schema) []Event {
	var gone, out []Event
	names := map[string]bool{}
	for name := range old.Keyspaces {
		names[name] = true
	}
	for name := range s.Keyspaces {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, after := old.Keyspaces[name], s.Keyspaces[name]
		switch {
		case before == after || before != nil && before.Virtual:
		case after == nil:
			gone = append(gone, dropped(before)...)
		default:
			out = append(out, compareKeyspaces(before, after)...)
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(rank(a), rank(b)) })
	return append(gone, out...)
}

// dropped returns the events of a dropped keyspace in Cassandra's order, in which the contents precede the keyspace.
func dropped(ks *Keyspace) (out []Event) {
	event := func(target, name string) {
		out = append(out, Event{Change: Dropped, Target: target, Keyspace: ks.Name, Name: name})
	}
	for _, aggregates := range []bool{true, false} {
		for _, f := range ks.Functions {
			if (f.Aggregate != nil) == aggregates {
				out = append(out, f.event(Dropped))
			}
		}
	}
	for _, views := range []bool{true, false} {
		for _, t := range ks.SortedTables() {
			if (t.View != nil) == views {
				event(TargetTable, t.Name)
			}
		}
	}
	for _, t := range ks.SortedTypes() {
		event(TargetType, t.Name)
	}
	event(TargetKeyspace, "")
	return out
}

func rank(e Event) int {
	return slices.Index([]string{TargetKeyspace, TargetType, TargetTable, TargetFunction, TargetAggregate}, e.Target)
}

func compareKeyspaces(before, after *Keyspace) (out []Event) {
	if before == nil {
		out = append(out, Event{Change: Created, Target: TargetKeyspace, Keyspace: after.Name})
		before = &Keyspace{}
	} else if !maps.Equal(before.Replication, after.Replication) || !maps.Equal(before.Options, after.Options) ||
		before.DurableWrites != after.DurableWrites {
		out = append(out, Event{Change: Updated, Target: TargetKeyspace, Keyspace: after.Name})
	}
	event := func(target, name string, was, is, same bool) {
		switch {
		case !was:
			out = append(out, Event{Change: Created, Target: target, Keyspace: after.Name, Name: name})
		case !is:
			out = append(out, Event{Change: Dropped, Target: target, Keyspace: after.Name, Name: name})
		case !same:
			out = append(out, Event{Change: Updated, Target: target, Keyspace: after.Name, Name: name})
		}
	}
	for _, name := range differing(before.Types, after.Types) {
		a, b := before.Types[name], after.Types[name]
		event(TargetType, name, a != nil, b != nil, a == b || reflect.DeepEqual(a, b))
	}
	for _, name := range differing(before.Tables, after.Tables) {
		a, b := before.Tables[name], after.Tables[name]
		if a != nil && b != nil && a.ID != b.ID { // the keyspace was dropped and created again
			event(TargetTable, name, true, false, false)
			a = nil
		}
		event(TargetTable, name, a != nil, b != nil, a == b || a != nil && b != nil && (a.Revision == b.Revision ||
			sameButViews(a, b)))
	}
	return append(out, compareFunctionsOf(before, after)...)
}

// sameButViews reports whether two revisions of a table differ only in the views of the table. Clients are notified
// only of the changed views.
func sameButViews(a, b *Table) bool {
	if maps.EqualFunc(a.Indexes, b.Indexes, func(x, y *Index) bool { return x == y || reflect.DeepEqual(x, y) }) {
		return false
	}
	return reflect.DeepEqual(withoutViews(a), withoutViews(b))
}

// withoutViews returns a table without its revision and its hint indexes.
func withoutViews(t *Table) *Table {
	out := *t
	out.Revision, out.Indexes = 0, map[string]*Index{}
	for name, ix := range t.Indexes {
		if ix.Kind != ViewKind {
			out.Indexes[name] = ix
		}
	}
	return &out
}

// compareFunctionsOf returns the events for the changed functions and aggregates of a keyspace.
func compareFunctionsOf(before, after *Keyspace) (out []Event) {
	find := func(k *Keyspace, f *Function) *Function {
		i := slices.IndexFunc(k.Functions, func(g *Function) bool {
			return g.key() == f.key() && g.target() == f.target()
		})
		if i < 0 {
			return nil
		}
		return k.Functions[i]
	}
	event := func(change string, f *Function) { out = append(out, f.event(change)) }
	for _, f := range before.Functions {
		if !slices.Contains(after.Functions, f) && find(after, f) == nil {
			event(Dropped, f)
		}
	}
	for _, f := range after.Functions {
		if slices.Contains(before.Functions, f) {
			continue
		}
		switch old := find(before, f); {
		case old == nil:
			event(Created, f)
		case !reflect.DeepEqual(old, f):
			event(Updated, f)
		}
	}
	return out
}

// differing returns the sorted names whose values differ between two maps. Shared values are not compared in depth,
// because a schema may have thousands of values.
func differing[V comparable](a, b map[string]V) []string {
	var out []string
	for name, v := range a {
		if other, ok := b[name]; !ok || other != v {
			out = append(out, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
