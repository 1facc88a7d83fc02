// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// invariants is the state of the machine's checks in builds with the invariants tag.
type invariants struct {
	// stamps holds the leader's last timestamp for each table, token, and key.
	stamps map[string]int64
}

// invariantKeysMax is the maximum number of keys in stamps.
const invariantKeysMax = 1 << 16

// invariantMetaEvery is the number of entries between two checks of the stored meta. The cost of a check grows with the
// number of batches since the last flush.
const invariantMetaEvery = 8

// checkWrite checks (P2) and (P3) for a mutation before it is applied.
func (l *invariants) checkWrite(r *Replica, m *command.Mutation) {
	s := r.state.Load()
	own := s.keys.Table == m.Table && s.span.Holds(m.Position())
	invariant.Check(own, "P3: partition %d applies key %x", r.id, m.Key)
	if l.stamps == nil || len(l.stamps) >= invariantKeysMax {
		l.stamps = map[string]int64{}
	}
	k := string(keys.AppendPartition(nil, m.Table, m.Token, m.Key))
	invariant.Check(m.Timestamp >= l.stamps[k], "P2: key %x is stamped %d after %d", m.Key, m.Timestamp, l.stamps[k])
	l.stamps[k] = m.Timestamp
}

// checkCommitted checks three properties after a commit. The stored meta must equal the written meta. The state visible
// to readers must advance. No other replica of the node may hold a key of the replica (P3).
func (a *machine) checkCommitted(r *Replica) {
	shown, applied := r.visible.Load(), r.ahead.applied
	invariant.Check(applied >= shown, "P6: the applied index of partition %d decreases from %d to %d", r.id, shown,
		applied)
	if applied%invariantMetaEvery == 0 {
		stored, ok, err := a.host.store.Meta(uint64(r.id))
		same := err == nil && ok && bytes.Equal(stored.Append(nil), r.ahead.meta.Append(nil))
		invariant.Check(same, "P6: the metadata of partition %d is %+v, but %+v was written", r.id, stored,
			r.ahead.meta)
	}
	s := r.state.Load()
	for _, o := range *a.host.replicas.Load() {
		t := o.state.Load()
		invariant.Check(o == r || t.keys.Table != s.keys.Table || s.keys.Table == 0 || !t.span.Overlaps(s.span),
			"P3: partition %d overlaps partition %d", r.id, o.id)
	}
}
