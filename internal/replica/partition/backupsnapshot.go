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

// ErrPauseExpired means that writes may have resumed, on this replica or on another replica, before a snapshot was
// sealed.
var ErrPauseExpired = errors.New("writes to the partition may have resumed before the snapshot was complete")

// Snapshot is a state of a partition for a consistent snapshot of all partitions of a cluster. The partition accepts no
// writes from BeginSnapshot until Seal. If all snapshots begin before the first snapshot is sealed, their states
// together are the state of the cluster at one instant (RFC 0034).
type Snapshot struct {
	replica *Replica
	term    uint64
	extent  Extent
	state   *storage.Snapshot

	mu     sync.Mutex
	resume func()
}

// BeginSnapshot pauses the writers of the partition, waits until all accepted writes are applied, and captures the
// state. It returns an error if this replica does not lead. The caller must soon call Seal or ResumeWrites, because
// writers wait only for a limited time. The caller must also close the snapshot.
func (r *Replica) BeginSnapshot(ctx context.Context) (*Snapshot, error) {
	if err := r.requests.begin(); err != nil {
		return nil, err
	}
	m, err := r.beginSnapshot(ctx)
	if err != nil {
		r.requests.end()
		return nil, err
	}
	return m, nil
}

func (r *Replica) beginSnapshot(ctx context.Context) (*Snapshot, error) {
	if _, err := r.evaluating(); err != nil {
		return nil, err // before all writers wait
	}
	release, err := r.Control().latchAll(ctx)
	if err != nil {
		return nil, err
	}
	m := &Snapshot{replica: r, extent: r.Extent()}
	m.resume = func() { release(); r.requests.end() }
	if err := m.capture(ctx); err != nil {
		release()
		return nil, err
	}
	return m, nil
}

// capture captures the state after a no-op entry. When this entry is applied, all earlier proposals have been applied,
// and no other leader has proposed an entry.
func (m *Snapshot) capture(ctx context.Context) (err error) {
	r := m.replica
	if err := r.matches(m.extent); err != nil {
		return err
	}
	if m.term, err = r.evaluating(); err != nil {
		return err
	}
	still := &command.Entry{Kind: command.EntryRequire, Epoch: m.extent.Epoch, Span: m.extent.Span,
		SchemaVersion: r.schema.Load()}
	o, err := r.Control().proposeAndWait(ctx, still)
	if err != nil {
		return err
	}
	if m.state, err = r.host.store.OpenSnapshot(uint64(r.id)); err != nil {
		return err
	}
	if meta := m.state.Meta(); meta.Epoch != m.extent.Epoch || meta.Applied < o.Index {
		return errors.Join(fmt.Errorf("%w: partition %d", ErrPauseExpired, r.id), m.state.Close())
	}
	return nil
}

// Meta returns the meta of the state. The fields Applied and Term are the log position of the state.
func (m *Snapshot) Meta() keys.Meta { return m.state.Meta() }

// Each passes the keys and values of the state to fn; see storage.Snapshot.
func (m *Snapshot) Each(ctx context.Context, from []byte, fn func(key, value []byte) error) error {
	return m.state.Each(ctx, from, fn)
}

// Seal resumes writes. It returns ErrPauseExpired if this replica or another leader may have written to the partition
// before Seal was called.
func (m *Snapshot) Seal(ctx context.Context) error {
	defer m.ResumeWrites()
	r := m.replica
	m.mu.Lock()
	held := m.resume != nil
	m.mu.Unlock()
	if !held {
		return ErrPauseExpired
	}
	if err := r.confirmAfter(ctx, func() error { return r.matches(m.extent) }); err != nil {
		return fmt.Errorf("%w: %w", ErrPauseExpired, err)
	}
	if term, err := r.evaluating(); err != nil || term != m.term {
		return errors.Join(ErrPauseExpired, err)
	}
	return nil
}

// ResumeWrites resumes writes. An unsealed snapshot can then no longer be sealed.
func (m *Snapshot) ResumeWrites() {
	m.mu.Lock()
	leave := m.resume
	m.resume = nil
	m.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// Close releases the state. The caller must not call Close while Each is in progress.
func (m *Snapshot) Close() error {
	m.ResumeWrites()
	return m.state.Close()
}
