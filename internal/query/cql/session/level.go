// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/topology"
)

// A quorum of the replicas acknowledges every write, at all consistency levels. Every read, except at ONE and
// LOCAL_ONE, returns all writes that were acknowledged before the read. Therefore, each level provides at least the
// guarantee that the level's name promises. The only exception is a write at a level that requires more replicas than a
// quorum. A client that sends such a write receives one warning per connection and level.

// warnings records which warnings a client has received.
type warnings struct{ sent atomic.Uint32 }

// addLevel adds a warning to the result of a write if the consistency level requires more replicas than a quorum.
func (w *warnings) addLevel(c *Call, e *Engine) {
	level := c.Request.Consistency
	if level != dberr.All && level != dberr.Two && level != dberr.Three {
		return
	}
	bit := uint32(1) << level
	if w.sent.Load()&bit != 0 {
		return
	}
	info := e.catalog.Info()
	replicas := info.EffectiveReplication
	asked := replicas
	switch level {
	case dberr.Two:
		asked = 2
	case dberr.Three:
		asked = 3
	}
	quorum := topology.Quorum(replicas)
	if replicas == 0 || asked <= quorum || w.sent.Or(bit)&bit != 0 {
		return
	}
	c.Result.Warnings = append(c.Result.Warnings,
		fmt.Sprintf("Writes at consistency level %s are acknowledged by %d of %d replicas, like all writes", level,
			quorum, replicas))
}

// warnedUseBit is the bit of warnings for the USE warning. No consistency level has this bit.
const warnedUseBit = 1 << 31

// needsUse reports whether a statement requires the USE warning. The statement must name a table without its keyspace,
// and the client must not have received the warning.
func (w *warnings) needsUse(e *Engine, st *statement) bool {
	return !st.qualified && e.opts.Release.WarnsOfUse && st.keyspace != "" && len(st.tables) > 0 &&
		w.sent.Load()&warnedUseBit == 0
}

// preparedElsewhere reports whether a prepared statement requires the USE warning because the statement was prepared in
// a keyspace other than the session's keyspace.
func (w *warnings) preparedElsewhere(e *Engine, st *statement, keyspace string) bool {
	return w.needsUse(e, st) && st.kind != KindBatch && keyspace != st.keyspace
}

// addUse adds Cassandra 5.0's warning about USE once per session. The warning is added to the first PREPARE that names
// a table without its keyspace, or to the first execution for which preparedElsewhere returns true. used is the
// keyspace of the session.
func (w *warnings) addUse(c *Call, e *Engine, st *statement, used string, id [16]byte) {
	if !w.needsUse(e, st) || w.sent.Or(warnedUseBit)&warnedUseBit != 0 {
		return
	}
	c.Result.Warnings = append(c.Result.Warnings, fmt.Sprintf("`USE <keyspace>` with prepared statements is "+
		"considered to be an anti-pattern due to ambiguity in non-qualified table names. Please consider removing "+
		"instances of `Session#setKeyspace(<keyspace>)`, `Session#execute(\"USE <keyspace>\")` and "+
		"`cluster.newSession(<keyspace>)` from your code, and always use fully qualified table names (e.g. "+
		"<keyspace>.<table>). Keyspace used: %s, statement keyspace: %s, statement id: %x",
		cmp.Or(used, "null"), st.tables[0].Keyspace, id))
}
