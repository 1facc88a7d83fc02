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

// Stamp holds the inputs of a change that a transition must not generate.
type Stamp struct {
	// Version becomes Schema.Version.
	Version UUID
	// At is the time of the change, in microseconds since the epoch.
	At int64
	// Release is the Cassandra release whose rules and texts apply to the statement. A nil Release selects Cassandra
	// 4.0.
	Release *compat.Release
}

// Change is one DDL change. Every node applies it. Its implementations are the types of this package that are named
// after statements.
type Change interface {
	stamp() *Stamp
	// apply returns the schema after the change, and the events. If nothing changes, apply returns s itself. The
	// caller sets version and revision.
	apply(s *Schema) (*Schema, []Event, error)
}

func (st *Stamp) stamp() *Stamp { return st }

func (st *Stamp) release() *compat.Release { return cmp.Or(st.Release, compat.Cassandra40) }

// Event notifies clients of a change.
type Event struct {
	Change string // CREATED, UPDATED, or DROPPED
	Target string // KEYSPACE, TABLE, TYPE, FUNCTION, or AGGREGATE
	// Name is empty for a keyspace.
	Keyspace, Name string
	// Args lists the argument types of a function or aggregate (see ArgList).
	Args string
}

// argSeparator separates the types in Event.Args. It does not occur in the text of a type.
const argSeparator = "\n"

// ArgList returns the argument types of a function or aggregate, as sent to clients.
func (e *Event) ArgList() []string {
	if e.Args == "" {
		return nil
	}
	return strings.Split(e.Args, argSeparator)
}

// These are the words used in an Event.
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

// Apply returns the schema after a change. The first event describes the effect of the statement, and further events
// describe its consequences. A change without effect returns s itself and no event. Examples are IF NOT EXISTS for an
// existing object, and options set to their current values. Package dberr defines the errors. The errors have
// Cassandra's texts. Apply checks for them in Cassandra's order.
func Apply(s *Schema, c Change) (*Schema, []Event, error) {
	next, events, err := c.apply(s)
	if err != nil || next == s {
		return s, nil, err
	}
	next.Version = c.stamp().Version
	next.Revision = s.Revision + 1
	for _, ev := range events {
		if ev.Target == TargetTable && ev.Change != Dropped {
			// This change created the table, so the table is not shared yet.
			next.Table(ev.Keyspace, ev.Name).Revision = next.Revision
		}
	}
	return next, events, nil
}

// withKeyspace returns a schema that contains ks. A keyspace of the same name is replaced.
func (s *Schema) withKeyspace(ks *Keyspace) *Schema {
	next := *s
	next.Keyspaces = maps.Clone(s.Keyspaces)
	next.Keyspaces[ks.Name] = ks
	return &next
}

// With returns a schema that contains the given keyspaces. Keyspaces of the same names are replaced. With does not
// make a DDL change, so the version and the revision stay the same. The catalog uses With to add computed keyspaces.
func (s *Schema) With(keyspaces ...*Keyspace) *Schema {
	next := *s
	next.Keyspaces = maps.Clone(s.Keyspaces)
	for _, ks := range keyspaces {
		next.Keyspaces[ks.Name] = ks
	}
	return &next
}

// withTable returns a keyspace that contains t. A table of the same name is replaced.
func (k *Keyspace) withTable(t *Table) *Keyspace {
	next := *k
	next.Tables = maps.Clone(k.Tables)
	if next.Tables == nil {
		next.Tables = map[string]*Table{}
	}
	next.Tables[t.Name] = t
	return &next
}

// clone copies the parts that table transitions modify in place. These parts are the struct, its slices, and its maps,
// but not columns or indexes.
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
