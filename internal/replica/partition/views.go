// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// Views maintains materialized views. Writes leave hints in the same log entry (RFC 0030). The leader of the partition
// updates the views and then removes the hints.
type Views interface {
	// Follow receives the keys of the hints of an applied write on this node, and may retain them. stamp is the
	// timestamp of the write, or 0 if the timestamp is unknown. Follow calls then once, when the views have been
	// updated or when the client has waited long enough. It must not block and must be fast.
	Follow(r *Replica, hints [][]byte, stamp int64, then func())
}

// SetViews sets the receiver of the hints of all later writes.
func (e *extensions) SetViews(v Views) { e.views.Store(&v) }

// hintsOf appends the keys that a mutation writes under keys.HintStale.
func (e *extensions) hintsOf(hints [][]byte, m *command.Mutation) [][]byte {
	if e.views.Load() == nil {
		return hints
	}
	for i := range m.Ops {
		if o := &m.Ops[i]; o.Kind == command.OpIndex && o.Index&keys.HintSpace != 0 && len(o.Value) == 0 {
			key := keys.AppendIndex(nil, o.Index, o.Value, m.Token, m.Key, o.Clustering)
			if len(hints) == 0 || !bytes.Equal(hints[len(hints)-1], key) {
				hints = append(hints, key)
			}
		}
	}
	return hints
}

// awaitViews returns the completion of a write with the given hints. It is done or a completion that first waits for
// the views.
func awaitViews(r *Replica, done command.Completion, hints [][]byte) command.Completion {
	if hints == nil {
		return done
	}
	return &viewWaiter{replica: r, hints: hints, done: done}
}

// viewWaiter is the completion of a write to a table with views.
type viewWaiter struct {
	replica *Replica
	hints   [][]byte
	// stamp is the timestamp of the hints, or 0 if it is not yet known.
	stamp int64
	done  command.Completion
}

// Done implements command.Completion.
func (f *viewWaiter) Done(o command.Outcome) {
	if o.Err != nil {
		f.done.Done(o)
		return
	}
	(*f.replica.host.views.Load()).Follow(f.replica, f.hints, f.stamp, func() { f.done.Done(o) })
}
