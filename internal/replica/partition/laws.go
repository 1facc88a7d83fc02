// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/invariant"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// laws is what the machine keeps to check itself, with the build tag invariants.
type laws struct {
	// stamps are the leader's last ones, by table, token and key.
	stamps map[string]int64
}

// lawKeysMax bounds the keys whose stamps are kept.
const lawKeysMax = 1 << 16

// lawMetaEvery is how many entries there are between two looks at the stored meta, which cost as much as there were
// batches since the last flush.
const lawMetaEvery = 8

// wrote checks (P2) and (P3) of a mutation that is about to be applied.
func (l *laws) wrote(r *Replica, m *command.Mutation) {
	s := r.state.Load()
	own := s.keys.Table == m.Table && s.span.Holds(m.Position())
	invariant.Check(own, "P3: partition %d applies key %x", r.id, m.Key)
	if l.stamps == nil || len(l.stamps) >= lawKeysMax {
		l.stamps = map[string]int64{}
	}
	k := string(keys.AppendPartition(nil, m.Table, m.Token, m.Key))
	invariant.Check(m.Timestamp >= l.stamps[k], "P2: key %x is stamped %d after %d", m.Key, m.Timestamp, l.stamps[k])
	l.stamps[k] = m.Timestamp
}

// committed checks that a replica's stored meta is what was written, that what readers see goes on, and that no other
// replica of the node holds any of its keys (P3).
func (a *machine) committed(r *Replica) {
	shown, applied := r.shown.Load(), r.ahead.applied
	invariant.Check(applied >= shown, "P6: partition %d goes back from %d to %d", r.id, shown, applied)
	if applied%lawMetaEvery == 0 {
		stored, ok, err := a.host.store.Meta(uint64(r.id))
		same := err == nil && ok && bytes.Equal(stored.Append(nil), r.ahead.meta.Append(nil))
		invariant.Check(same, "P6: the meta of partition %d is %+v, written was %+v", r.id, stored, r.ahead.meta)
	}
	s := r.state.Load()
	for _, o := range *a.host.replicas.Load() {
		t := o.state.Load()
		invariant.Check(o == r || t.keys.Table != s.keys.Table || s.keys.Table == 0 || !t.span.Overlaps(s.span),
			"P3: partition %d overlaps partition %d", r.id, o.id)
	}
}
