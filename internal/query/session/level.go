// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// Every write of a cluster is confirmed by a quorum of its replicas, whatever its level; every read but those at ONE
// and LOCAL_ONE sees all writes that were confirmed before. So levels get what they ask for, or more, with one
// exception: a write that asks for more replicas than a quorum has. Its client is told so, once per connection and
// level.

// warnLevel adds a warning to the result of a write if its level asks for more than it got.
func (s *Session) warnLevel(c *Call) {
	level := c.Request.Consistency
	if level != dberr.All && level != dberr.Two && level != dberr.Three {
		return
	}
	bit := uint32(1) << level
	if s.warned.Load()&bit != 0 {
		return
	}
	info := s.engine.catalog.Info()
	replicas := info.Replicas()
	asked := replicas
	switch level {
	case dberr.Two:
		asked = 2
	case dberr.Three:
		asked = 3
	}
	quorum := topology.Quorum(replicas)
	if replicas == 0 || asked <= quorum || s.warned.Or(bit)&bit != 0 {
		return
	}
	c.Result.Warnings = append(c.Result.Warnings,
		fmt.Sprintf("Writes at consistency level %s are confirmed by %d of %d replicas, as all writes are", level,
			quorum, replicas))
}

// warnedOfUse is the bit of Session.warned that no consistency level has.
const warnedUseBit = 1 << 31

// unwarned reports whether a statement names a table without its keyspace, and its client was not warned of one yet.
func (s *Session) needsUseWarning(st *statement) bool {
	return !st.qualified && s.engine.opts.Release.WarnsOfUse && st.keyspace != "" && len(st.tables) > 0 &&
		s.warned.Load()&warnedUseBit == 0
}

// strays reports whether the client of a prepared statement is to be warned because the statement was prepared in
// another keyspace than the session's.
func (s *Session) preparedElsewhere(st *statement) bool {
	return s.needsUseWarning(st) && st.kind != KindBatch && s.Keyspace() != st.keyspace
}

// warnUse adds Cassandra 5.0's warning to the first PREPARE of a session that names a table without its keyspace, or to
// the first execution of such a statement that strays. used is the keyspace of the session.
func (s *Session) warnUse(c *Call, st *statement, used string, id [16]byte) {
	if !s.needsUseWarning(st) || s.warned.Or(warnedUseBit)&warnedUseBit != 0 {
		return
	}
	c.Result.Warnings = append(c.Result.Warnings, fmt.Sprintf("`USE <keyspace>` with prepared statements is "+
		"considered to be an anti-pattern due to ambiguity in non-qualified table names. Please consider removing "+
		"instances of `Session#setKeyspace(<keyspace>)`, `Session#execute(\"USE <keyspace>\")` and "+
		"`cluster.newSession(<keyspace>)` from your code, and always use fully qualified table names (e.g. "+
		"<keyspace>.<table>). Keyspace used: %s, statement keyspace: %s, statement id: %x",
		cmp.Or(used, "null"), st.tables[0].Keyspace, id))
}
