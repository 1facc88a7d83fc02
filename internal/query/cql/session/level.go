// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"fmt"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// A quorum of the replicas acknowledges every write, at all consistency levels. Every read, except at ONE and
// LOCAL_ONE, sees all writes acknowledged before it. A level therefore gives at least the guarantee that it names, with
// one exception: a write at a level that requires more replicas than a quorum. Its client receives a warning, once per
// connection and level.

// warnLevel adds a warning to the result of a write whose level requires more replicas than a quorum.
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
	replicas := info.EffectiveReplication
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
		fmt.Sprintf("Writes at consistency level %s are acknowledged by %d of %d replicas, like all writes", level,
			quorum, replicas))
}

// warnedUseBit is the bit of Session.warned for the USE warning. No consistency level has this bit.
const warnedUseBit = 1 << 31

// needsUseWarning reports whether a statement names a table without its keyspace and its client has not received the
// warning about that.
func (s *Session) needsUseWarning(st *statement) bool {
	return !st.qualified && s.engine.opts.Release.WarnsOfUse && st.keyspace != "" && len(st.tables) > 0 &&
		s.warned.Load()&warnedUseBit == 0
}

// preparedElsewhere reports whether a prepared statement requires the USE warning because it was prepared in a
// different keyspace.
func (s *Session) preparedElsewhere(st *statement) bool {
	return s.needsUseWarning(st) && st.kind != KindBatch && s.Keyspace() != st.keyspace
}

// warnUse adds Cassandra 5.0's warning about USE once per session: to the first PREPARE that names a table without its
// keyspace, or to the first execution for which preparedElsewhere is true. used is the keyspace of the session.
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
