// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/ilion-db/ilion/internal/model/compat"
)

var errBadUUID = errors.New("not a UUID")

// Stamp is what a change brings along because a transition may not draw it itself.
type Stamp struct {
	// Version becomes Schema.Version.
	Version UUID
	// At is when the change was made, in microseconds since the epoch.
	At int64
	// Release is whose rules and texts hold for the statement, those of Cassandra 4.0 if nil.
	Release *compat.Release
}

// Change is one DDL change, as it is applied on every node. It is one of the types of this package that are named after
// the statements.
type Change interface {
	stamp() *Stamp
	// apply returns the schema after the change, s itself if there is nothing to do, and what happened. The caller sets
	// version and revision.
	apply(s *Schema) (*Schema, []Event, error)
}

func (st *Stamp) stamp() *Stamp { return st }

func (st *Stamp) release() *compat.Release { return cmp.Or(st.Release, compat.Cassandra40) }

// Event tells clients what changed.
type Event struct {
	Change string // CREATED, UPDATED, DROPPED
	Target string // KEYSPACE, TABLE, TYPE, FUNCTION, AGGREGATE
	// Name is empty for a keyspace.
	Keyspace, Name string
	// Args are the types of the arguments of a function or aggregate; see ArgList.
	Args string
}

// argSeparator stands between types in Event.Args. No type has it in its text.
const argSeparator = "\n"

// ArgList are the types of the arguments of a function or aggregate, as clients are told.
func (e *Event) ArgList() []string {
	if e.Args == "" {
		return nil
	}
	return strings.Split(e.Args, argSeparator)
}

// The words of Event.
const (
	Created = "CREATED"
	Updated = "UPDATED"
	Dropped = "DROPPED"

	TargetKeyspace = "KEYSPACE"
	TargetTable    = "TABLE"
	TargetType     = "TYPE"

	TargetFunction  = "FUNCTION"
	TargetAggregate = "AGGREGATE"
)

// Apply makes the next schema. The first event is the statement's own, further ones are consequences. A change that
// changes nothing (IF NOT EXISTS of what exists, options set to what they are) returns s itself and no event. Errors
// are those of package dberr, with Cassandra's texts, checked in Cassandra's order.
func Apply(s *Schema, c Change) (*Schema, []Event, error) {
	next, events, err := c.apply(s)
	if err != nil || next == s {
		return s, nil, err
	}
	next.Version = c.stamp().Version
	next.Revision = s.Revision + 1
	for _, ev := range events {
		if ev.Target == TargetTable && ev.Change != Dropped {
			// The table was built by this change and is not shared yet.
			next.Table(ev.Keyspace, ev.Name).Revision = next.Revision
		}
	}
	return next, events, nil
}

// withKeyspace returns a schema in which ks replaces the keyspace of its name.
func (s *Schema) withKeyspace(ks *Keyspace) *Schema {
	next := *s
	next.Keyspaces = maps.Clone(s.Keyspaces)
	next.Keyspaces[ks.Name] = ks
	return &next
}

// With returns a schema that has these keyspaces as well; it replaces those of the same names. It is not a change:
// version and revision stay. The catalog adds computed keyspaces with it.
func (s *Schema) With(keyspaces ...*Keyspace) *Schema {
	next := *s
	next.Keyspaces = maps.Clone(s.Keyspaces)
	for _, ks := range keyspaces {
		next.Keyspaces[ks.Name] = ks
	}
	return &next
}

// withTable returns a keyspace in which t replaces the table of its name.
func (k *Keyspace) withTable(t *Table) *Keyspace {
	next := *k
	next.Tables = maps.Clone(k.Tables)
	if next.Tables == nil {
		next.Tables = map[string]*Table{}
	}
	next.Tables[t.Name] = t
	return &next
}

// clone copies what the transitions of a table change in place: the struct, its slices and maps, but no column or
// index.
func (t *Table) clone() *Table {
	next := *t
	next.PartitionKey = slices.Clone(t.PartitionKey)
	next.Clustering = slices.Clone(t.Clustering)
	next.Statics = slices.Clone(t.Statics)
	next.Regulars = slices.Clone(t.Regulars)
	next.Dropped = slices.Clone(t.Dropped)
	next.Indexes = maps.Clone(t.Indexes)
	next.reindex()
	return &next
}

// reindex rebuilds ByName from the slices.
func (t *Table) reindex() {
	t.ByName = make(map[string]*Column)
	for c := range t.Columns() {
		t.ByName[c.Name] = c
	}
}
