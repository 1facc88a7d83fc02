// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Views maintains materialized views. Writes leave hints in the same log entry (RFC 0030). The leader of the partition
// updates the views and then removes the hints.
type Views interface {
	// Follow receives the hints left by writes here, as keys of applied entries that it may keep. stamp is the
	// timestamp of the write, or 0 if it is unknown. Follow calls then once, when the views are updated or when the
	// client has waited long enough. It must not block and must be fast.
	Follow(r *Replica, hints [][]byte, stamp int64, then func())
}

// SetViews sets the receiver of hints for all writes from now on.
func (h *Host) SetViews(v Views) { h.views.Store(&v) }

// hintsOf appends the keys that a mutation writes under keys.HintStale. Nearly all writes have none.
func (h *Host) hintsOf(hints [][]byte, m *command.Mutation) [][]byte {
	if h.views.Load() == nil {
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

// awaitViews returns the completion of a write: done, or a completion that waits for the views first.
func (r *Replica) awaitViews(done command.Completion, m *command.Mutation) command.Completion {
	return r.waitsFor(done, r.host.hintsOf(nil, m))
}

// awaitViewsAll is awaitViews for several mutations applied as one.
func (r *Replica) awaitViewsAll(done command.Completion, parts []Part) command.Completion {
	var hints [][]byte
	for i := range parts {
		hints = r.host.hintsOf(hints, parts[i].Mutation)
	}
	return r.waitsFor(done, hints)
}

func (r *Replica) waitsFor(done command.Completion, hints [][]byte) command.Completion {
	if hints == nil {
		return done
	}
	return &viewWaiter{replica: r, hints: hints, done: done}
}

// viewWaiter is the completion of a write to a table with views.
type viewWaiter struct {
	replica *Replica
	hints   [][]byte
	// stamp is the timestamp of the hints, or 0 until it is known. A write that was applied before has an older one.
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

// HintAt returns the timestamp of a hint in this node's store. ok is false if none exists.
func (r *Replica) HintAt(key []byte) (stamp int64, ok bool, err error) {
	return r.host.store.HintAt(key)
}

// Due passes on the due keys in the replica's span for the view of an index of hints, from a key on (nil: from the
// first), until fn returns false. Keys are valid during the call.
func (r *Replica) Due(index uint32, from []byte, fn func(key []byte, stamp int64) bool) error {
	s := r.state.Load()
	prefix := keys.AppendIndexValue(nil, index, keys.HintStale)
	lower := append(bytes.Clone(prefix), s.keys.Begin...)
	if bytes.Compare(from, lower) > 0 {
		lower = from
	}
	upper := keys.After(bytes.Clone(prefix))
	if len(s.keys.End) > 0 {
		upper = append(prefix, s.keys.End...)
	}
	return r.host.store.Hints(lower, upper, fn)
}

// DueSince reports whether a row has become due after a timestamp for the view of an index of hints, either through its
// own hint or through the hint of a range of its logical partition.
func (r *Replica) DueSince(index uint32, tok token.Token, key, clustering []byte, stamp int64) (since bool, err error) {
	row := keys.AppendIndex(nil, index, keys.HintStale, tok, key, keys.AppendStaleRow(nil, clustering))
	if at, ok, err := r.HintAt(row); err != nil || ok && at > stamp {
		return true, err
	}
	if !r.host.store.HasDeletions(r.Table()) {
		return false, nil // the hint of a range is written with the deletion of the range
	}
	lower, upper := keys.StaleRangeBounds()
	prefix := keys.AppendIndex(nil, index, keys.HintStale, tok, key, nil)
	err = r.host.store.Hints(append(bytes.Clone(prefix), lower...), append(prefix, upper...),
		func(_ []byte, at int64) bool {
			since = since || at > stamp
			return !since
		})
	return since, err
}

// ViewPlaces passes on the view keys of rows of a logical partition with suffixes in [lower, upper). A nil upper is
// unbounded. fn is used as in Due.
func (r *Replica) ViewPlaces(index uint32, tok token.Token, key, lower, upper []byte,
	fn func(place []byte, stamp int64) bool) error {
	prefix := keys.AppendIndex(nil, index, keys.HintViewRow, tok, key, nil)
	end := keys.After(bytes.Clone(prefix))
	if upper != nil {
		end = append(bytes.Clone(prefix), upper...)
	}
	return r.host.store.Hints(append(prefix, lower...), end, fn)
}

// LookLed is Look on a replica that leads and has applied everything acknowledged before. It returns *NotLeader if the
// replica does not lead.
func (r *Replica) LookLed(ctx context.Context, q *command.Read, v command.Visitor) error {
	t := r.seq.lease()
	if t.term == 0 {
		return r.notLeader()
	}
	if err := r.Look(ctx, q, v); err != nil {
		return err
	}
	return r.seq.confirmRead(ctx, t, q)
}

// Look reads the state applied here, regardless of other replicas. It is free of charge and does not confirm anything.
func (r *Replica) Look(ctx context.Context, q *command.Read, v command.Visitor) error {
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	s := r.state.Load()
	if r.isMeta() || q.Table != s.keys.Table || !s.serves(q.Position()) {
		return r.wrongRange()
	}
	if err := r.host.store.Read(ctx, q, v); err != nil {
		return err
	}
	if r.gaveAway(q, s) {
		return r.wrongRange()
	}
	return nil
}
