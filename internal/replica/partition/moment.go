// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

// ErrLapsed says that writers were let in again before a moment was sealed, or that another replica may have let them
// in.
var ErrLapsed = errors.New("the partition was written to, or may have been, before all others were still")

// Moment is the state of a partition at a moment of which all partitions of a cluster can have one: from its beginning
// until it is sealed nothing is written to the partition. So where the beginnings of some are all before all their
// seals there is an instant at which none of them was written to, and their states are that of this instant (RFC 0034).
type Moment struct {
	replica *Replica
	term    uint64
	extent  Extent
	state   *storage.Moment

	mu    sync.Mutex
	leave func() // nil once writers are let in
}

// BeginMoment keeps writers of the partition waiting, and keeps its state once all that was accepted before is applied.
// Only the leader can. The moment has to be sealed or let go soon, for writers wait no longer than they have to, and
// then to be closed.
func (r *Replica) BeginMoment(ctx context.Context) (*Moment, error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	m, err := r.beginMoment(ctx)
	if err != nil {
		r.end()
		return nil, err
	}
	return m, nil
}

func (r *Replica) beginMoment(ctx context.Context) (*Moment, error) {
	if _, err := r.evaluating(); err != nil {
		return nil, err // before all writers wait in vain
	}
	release, err := r.freeze(ctx)
	if err != nil {
		return nil, err
	}
	m := &Moment{replica: r, extent: r.Extent()}
	m.leave = func() { release(); r.end() }
	if err := m.capture(ctx); err != nil {
		release()
		return nil, err
	}
	return m, nil
}

// capture keeps the state behind an entry that does nothing: what was proposed before it is applied then, and nothing
// was proposed by another leader.
func (m *Moment) capture(ctx context.Context) (err error) {
	r := m.replica
	if err := r.matches(m.extent); err != nil {
		return err
	}
	if m.term, err = r.evaluating(); err != nil {
		return err
	}
	still := &command.Entry{Kind: command.EntryRequire, Epoch: m.extent.Epoch, Span: m.extent.Span,
		SchemaVersion: r.schema.Load()}
	o, err := r.order(ctx, still)
	if err != nil {
		return err
	}
	if m.state, err = r.host.store.HoldMoment(uint64(r.id)); err != nil {
		return err
	}
	if meta := m.state.Meta(); meta.Epoch != m.extent.Epoch || meta.Applied < o.Index {
		return errors.Join(fmt.Errorf("%w: partition %d", ErrLapsed, r.id), m.state.Close())
	}
	return nil
}

// Meta is that of the state; its Applied and Term are the position in the log.
func (m *Moment) Meta() keys.Meta { return m.state.Meta() }

// Each passes the state on; see storage.Moment.
func (m *Moment) Each(ctx context.Context, from []byte, fn func(key, value []byte) error) error {
	return m.state.Each(ctx, from, fn)
}

// Seal lets writers in again. It returns nil if nothing can have been written to the partition until Seal was called,
// here or by another leader, and ErrLapsed otherwise.
func (m *Moment) Seal(ctx context.Context) error {
	defer m.LetGo()
	r := m.replica
	m.mu.Lock()
	held := m.leave != nil
	m.mu.Unlock()
	if !held {
		return ErrLapsed
	}
	if err := r.confirmed(ctx, func() error { return r.matches(m.extent) }); err != nil {
		return fmt.Errorf("%w: %w", ErrLapsed, err)
	}
	if term, err := r.evaluating(); err != nil || term != m.term {
		return errors.Join(ErrLapsed, err)
	}
	return nil
}

// LetGo lets writers in again. A moment that is not sealed then never is.
func (m *Moment) LetGo() {
	m.mu.Lock()
	leave := m.leave
	m.leave = nil
	m.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// Close gives the state up. Each must not be under way.
func (m *Moment) Close() error {
	m.LetGo()
	return m.state.Close()
}
