// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
)

// Views follows what is written to tables with materialized views. Writes leave hints in the same entry of the log (RFC
// 0030); whoever leads the partition brings the views in step, and removes the hints then.
type Views interface {
	// Follow is told of the hints that writes have left here, as keys of entries that it may keep: they are applied.
	// Their stamp is that of the write, 0 where it is not known. It calls then once, when the views have followed or
	// when the client has waited long enough for them. It does not block, and must be quick.
	Follow(r *Replica, hints [][]byte, stamp int64, then func())
}

// SetViews has all writes from now on followed by v.
func (h *Host) SetViews(v Views) { h.views.Store(&v) }

// hintsOf adds the keys of what a mutation leaves under keys.HintStale: nothing for nearly all writes.
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

// follows returns the completion of a write: done, or one that waits for the views first.
func (r *Replica) follows(done command.Completion, m *command.Mutation) command.Completion {
	return r.waitsFor(done, r.host.hintsOf(nil, m))
}

// followsAll is follows for several mutations as one.
func (r *Replica) followsAll(done command.Completion, parts []Part) command.Completion {
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
	return &followed{replica: r, hints: hints, done: done}
}

// followed is the completion of a write to a table with views.
type followed struct {
	replica *Replica
	hints   [][]byte
	// stamp is that of the hints, 0 until it is known: a write that was applied before has an older one.
	stamp int64
	done  command.Completion
}

// Done implements command.Completion.
func (f *followed) Done(err error) {
	if err != nil {
		f.done.Done(err)
		return
	}
	(*f.replica.host.views.Load()).Follow(f.replica, f.hints, f.stamp, func() { f.done.Done(nil) })
}

// At implements Indexed.
func (f *followed) At(index uint64) { tellIndex(f.done, index) }

// Charge implements ru.Charged.
func (f *followed) Charge(u ru.Units) { ru.Tell(f.done, u) }

// followsDecision is follows for a conditional.
func (r *Replica) followsDecision(done command.DecisionCompletion, m *command.Mutation) command.DecisionCompletion {
	if hints := r.host.hintsOf(nil, m); hints != nil {
		return &followedDecision{r, hints, done}
	}
	return done
}

type followedDecision struct {
	replica *Replica
	hints   [][]byte
	done    command.DecisionCompletion
}

// Decided implements command.DecisionCompletion.
func (f *followedDecision) Decided(d *command.Decision, err error) {
	if err != nil || !d.Applied {
		f.done.Decided(d, err)
		return
	}
	(*f.replica.host.views.Load()).Follow(f.replica, f.hints, 0, func() { f.done.Decided(d, nil) })
}

// At implements Indexed.
func (f *followedDecision) At(index uint64) { tellIndex(f.done, index) }

// HintAt returns the stamp of a hint of this node's store; ok is false where there is none.
func (r *Replica) HintAt(key []byte) (stamp int64, ok bool, err error) {
	return r.host.store.HintAt(key)
}

// Due passes on what is due in the replica's span for the view of an index of hints, from a key on (nil: from the
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

// DueSince reports whether a row is due for the view of an index of hints since after a stamp, by itself or as part
// of a range of its logical partition.
func (r *Replica) DueSince(index uint32, tok token.Token, key, clustering []byte, stamp int64) (since bool, err error) {
	row := keys.AppendIndex(nil, index, keys.HintStale, tok, key, keys.AppendStaleRow(nil, clustering))
	if at, ok, err := r.HintAt(row); err != nil || ok && at > stamp {
		return true, err
	}
	if !r.host.store.HasDeletions(r.Table()) {
		return false, nil // the hint of a range comes with the deletion of one
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

// ViewPlaces passes on the places, of rows of a logical partition, whose rests are in [lower, upper); a nil upper is
// unbounded. fn is as of Due.
func (r *Replica) ViewPlaces(index uint32, tok token.Token, key, lower, upper []byte,
	fn func(place []byte, stamp int64) bool) error {
	prefix := keys.AppendIndex(nil, index, keys.HintViewRow, tok, key, nil)
	end := keys.After(bytes.Clone(prefix))
	if upper != nil {
		end = append(bytes.Clone(prefix), upper...)
	}
	return r.host.store.Hints(append(prefix, lower...), end, fn)
}

// LookLed is Look by a replica that leads, and has applied all that was acknowledged before; *NotLeader if it does not.
func (r *Replica) LookLed(ctx context.Context, q *command.Read, v command.Visitor) error {
	t := r.seq.hold()
	if t.term == 0 {
		return r.notLeader()
	}
	if err := r.Look(ctx, q, v); err != nil {
		return err
	}
	return r.seq.confirm(ctx, t, q)
}

// Look reads what has been applied here, whatever the others know. It costs nothing and confirms nothing.
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
