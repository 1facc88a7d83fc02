// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
)

// Compare returns what changed from old to s, as clients of a node are told that did not make the change itself. A
// keyspace that was dropped stands for all that was in it. Objects that are the same memory are taken for equal. The
// order is keyspaces, types, tables, functions, aggregates, each by name.
func Compare(old, s *Schema) []Event {
	var out []Event
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
			out = append(out, Event{Change: Dropped, Target: TargetKeyspace, Keyspace: name})
		default:
			out = append(out, compareKeyspaces(before, after)...)
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(rank(a), rank(b)) })
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
		if a != nil && b != nil && a.ID != b.ID { // dropped and made again meanwhile
			event(TargetTable, name, true, false, false)
			a = nil
		}
		event(TargetTable, name, a != nil, b != nil, a == b || a != nil && b != nil && a.Revision == b.Revision)
	}
	return append(out, compareFunctionsOf(before, after)...)
}

// compareFunctionsOf returns what changed among the functions and aggregates of a keyspace.
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

// differing lists the names under which two maps have not the same, sorted. What they share is not looked at closely:
// there may be thousands.
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
