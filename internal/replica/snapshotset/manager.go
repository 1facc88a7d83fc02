// SPDX-License-Identifier: Apache-2.0

// Package snapshotset manages a node's part of consistent snapshots of a cluster. A snapshot set contains the states of
// all partitions whose leader was on the node. A backup reads the set.
//
//	Begin ──► writers wait, states are kept ──► Seal ──► writers resume ──► Page, Page, ... ──► Drop
//
// Guarantees:
//
//   - (MO1) If Begin returns on every node before Seal is called on any node, and all calls succeed, all states are
//     from one instant.
//   - (MO2) Writers wait no longer than PauseMax. Snapshot sets without readers are dropped after IdleMax, even if the
//     client that created them has crashed.
//
// Start reading at Manager.
package snapshotset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

const (
	// PauseMax is the maximum time for which writers are paused.
	PauseMax = 1500 * time.Millisecond
	// IdleMax is the time for which an unused snapshot set is kept. A restarted backup can resume within this time.
	IdleMax = 10 * time.Minute
	// SetsMax is the maximum number of snapshot sets of a node. A new set replaces the least recently used set.
	SetsMax = 4
	// droppedIDsMax is the maximum number of stored IDs of dropped snapshot sets.
	droppedIDsMax = 16
)

// ErrGone means that a snapshot set does not exist on this node or has been dropped.
var ErrGone = errors.New("the snapshot set has been dropped: restart the backup; files that it has stored are not " +
	"sent again")

// Manager holds the snapshot sets of a node. The zero value is ready for use.
type Manager struct {
	mu   sync.Mutex
	sets map[string]*snapshotSet
	// dropped is a ring buffer of the IDs of the most recently dropped sets. A set can be dropped before Begin is
	// called for this set.
	dropped [droppedIDsMax]string
	drops   int
	closed  bool
	readers sync.WaitGroup
}

// snapshotSet is one snapshot set.
type snapshotSet struct {
	partitions map[topology.PartitionID]*partition.Snapshot
	// reading is the number of current readers. used is the time at which the last reader started. If dropped is set,
	// the set must be closed when the last reader has finished.
	reading int
	used    time.Time
	dropped bool
	// resumeTimer resumes writes after PauseMax. idleTimer drops the unused set.
	resumeTimer, idleTimer *time.Timer
	// ctx ends when the manager is closed.
	ctx    context.Context
	cancel context.CancelFunc
}

// Begin takes snapshots of all replicas that lead on this node, except the meta partition, and returns their
// partitions. Writers of these partitions wait until Seal or Drop is called or PauseMax has passed.
func (k *Manager) Begin(ctx context.Context, id string, replicas []*partition.Replica) ([]archive.Partition, error) {
	m := &snapshotSet{partitions: map[topology.PartitionID]*partition.Snapshot{}, used: time.Now()}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, PauseMax)
	defer cancel()
	var mu sync.Mutex
	var beginning sync.WaitGroup
	var failures []error
	for _, r := range replicas {
		if r.ID() == topology.MetaPartition || !r.Leading() {
			continue
		}
		beginning.Go(func() {
			part, err := r.BeginSnapshot(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, fmt.Errorf("partition %d: %w", r.ID(), err))
				return
			}
			m.partitions[r.ID()] = part
		})
	}
	beginning.Wait()
	if len(failures) > 0 {
		return nil, errors.Join(append(failures, m.close())...)
	}
	out := make([]archive.Partition, 0, len(m.partitions))
	for id, part := range m.partitions {
		meta := part.Meta()
		out = append(out, archive.Partition{ID: uint64(id), Table: meta.Span.Table, Begin: meta.Span.Begin,
			End: meta.Span.End, Epoch: meta.Epoch, Term: meta.Term, Applied: meta.Applied})
	}
	return out, k.register(id, m)
}

// register makes a snapshot set available to readers.
func (k *Manager) register(id string, m *snapshotSet) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.sets[id] != nil || slices.Contains(k.dropped[:], id) {
		return errors.Join(ErrGone, m.close())
	}
	if len(k.sets) >= SetsMax {
		oldest := ""
		for name, other := range k.sets {
			if other.reading == 0 && (oldest == "" || other.used.Before(k.sets[oldest].used)) {
				oldest = name
			}
		}
		if oldest == "" {
			return errors.Join(fmt.Errorf("%d backups are reading from this node. Retry when one of them has finished",
				SetsMax), m.close())
		}
		k.dropLocked(oldest)
	}
	if k.sets == nil {
		k.sets = map[string]*snapshotSet{}
	}
	k.sets[id] = m
	m.resumeTimer = time.AfterFunc(PauseMax, m.resumeWrites)
	m.idleTimer = time.AfterFunc(IdleMax, func() { k.expire(id) })
	return nil
}

// resumeWrites allows writers to continue.
func (m *snapshotSet) resumeWrites() {
	for _, part := range m.partitions {
		part.ResumeWrites()
	}
}

func (m *snapshotSet) close() error {
	m.cancel()
	var errs []error
	for _, part := range m.partitions {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}

// expire drops an unused snapshot set, or restarts its timer.
func (k *Manager) expire(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.sets[id]
	if m == nil {
		return
	}
	if left := IdleMax - time.Since(m.used); m.reading > 0 || left > 0 {
		m.idleTimer.Reset(max(left, time.Second))
		return
	}
	k.dropLocked(id)
}

// Seal allows writers to continue. If Seal returns an error, the states may be from different times.
func (k *Manager) Seal(ctx context.Context, id string) error {
	m, err := k.acquire(id)
	if err != nil {
		return err
	}
	defer k.release(m)
	var mu sync.Mutex
	var sealing sync.WaitGroup
	var failures []error
	for _, part := range m.partitions {
		sealing.Go(func() {
			if err := part.Seal(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			}
		})
	}
	sealing.Wait()
	return errors.Join(failures...)
}

// Page returns the next file of a partition, encoded as archive.Page.
func (k *Manager) Page(ctx context.Context, a *archive.FileRequest) ([]byte, error) {
	m, err := k.acquire(a.ID)
	if err != nil {
		return nil, err
	}
	defer k.release(m)
	part := m.partitions[topology.PartitionID(a.Partition)]
	if part == nil {
		return nil, ErrGone
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	page, err := read(ctx, part, a)
	if err != nil {
		return nil, fmt.Errorf("read partition %d: %w", a.Partition, err)
	}
	return page.Append(nil)
}

// errFull ends a read at the end of a file.
var errFull = errors.New("the file is full")

// idLen is the length of a table ID, which is the prefix of all keys of the table.
const idLen = 4

func read(ctx context.Context, part *partition.Snapshot, a *archive.FileRequest) (*archive.FileResponse, error) {
	span := part.Meta().Span
	var from []byte
	if len(a.From) > 0 {
		lower, _ := span.Bounds()
		from = append(append(from, lower[:idLen]...), a.From...)
	}
	var b archive.Builder
	page := new(archive.FileResponse)
	err := part.Each(ctx, from, func(key, value []byte) error {
		if err := b.Add(key[idLen:], value); err != nil {
			return err
		}
		if !b.Full() {
			return nil
		}
		page.Next = append(append(page.Next, key[idLen:]...), 0)
		return errFull
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, err
	}
	if b.Records() == 0 {
		return page, nil
	}
	page.File = b.File()
	for _, known := range a.KnownFiles {
		if known == page.File.Name {
			return page, nil
		}
	}
	page.Data = b.Data()
	return page, nil
}

// acquire registers a reader.
func (k *Manager) acquire(id string) (*snapshotSet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.sets[id]
	if m == nil || k.closed {
		return nil, ErrGone
	}
	k.readers.Add(1)
	m.reading++
	m.used = time.Now()
	return m, nil
}

func (k *Manager) release(m *snapshotSet) {
	defer k.readers.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	m.used = time.Now()
	if m.reading--; m.reading == 0 && m.dropped {
		_ = m.close() // the store reports its own errors
	}
}

// Drop drops a snapshot set. If Begin has not yet been called for the set, Drop drops the set in advance.
func (k *Manager) Drop(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropped[k.drops%droppedIDsMax] = id
	k.drops++
	k.dropLocked(id)
}

func (k *Manager) dropLocked(id string) {
	m := k.sets[id]
	if m == nil {
		return
	}
	delete(k.sets, id)
	m.resumeTimer.Stop()
	m.idleTimer.Stop()
	m.dropped = true
	m.resumeWrites()
	if m.reading == 0 {
		_ = m.close() // the store reports its own errors
	}
}

// Close stops all readers, drops all snapshot sets, and rejects new snapshot sets.
func (k *Manager) Close() error {
	k.mu.Lock()
	k.closed = true
	for _, m := range k.sets {
		m.cancel()
	}
	k.mu.Unlock()
	k.readers.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.sets {
		k.dropLocked(id)
	}
	return nil
}
