// SPDX-License-Identifier: Apache-2.0

// Package moment keeps what a node has of moments of the whole cluster: the states of the partitions that it led then,
// for a backup to read.
//
//	Begin ──► writers wait, states are kept ──► Seal ──► writers go on ──► Page, Page, ... ──► Drop
//
// Guarantees: (MO1) if Begin has returned on every node before Seal is called on any, and all of both have succeeded,
// then the states are those of one instant; (MO2) writers wait no longer than StillMax, and moments that nobody asks
// for are dropped after IdleMax, so whoever took one may die. Start at Keeper.
package moment

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
	// StillMax is for how long writers are kept waiting at most.
	StillMax = 1500 * time.Millisecond
	// IdleMax is how long a moment is kept that nobody asks for: a backup that was stopped may go on within it.
	IdleMax = 10 * time.Minute
	// KeptMax bounds the moments of a node: a further one takes the place of the one that was asked for longest ago.
	KeptMax = 4
	// droppedMax is how many moments are remembered as given up.
	droppedMax = 16
)

// ErrGone says that a moment is not kept here any more, or never was.
var ErrGone = errors.New("the moment is not kept any more: begin the backup anew; what it has sent is not sent again")

// Keeper keeps the moments of a node. The zero value is ready for use.
type Keeper struct {
	mu      sync.Mutex
	moments map[string]*kept
	// dropped are the newest that were given up, in a ring: one may be so before it has begun here.
	dropped [droppedMax]string
	drops   int
	closed  bool
	readers sync.WaitGroup
}

// kept is a moment.
type kept struct {
	parts map[topology.PartitionID]*partition.Moment
	// reading counts those that read, used is when the last one began; gone is set when it is to be closed.
	reading int
	used    time.Time
	gone    bool
	// open lets writers in if nobody does, idle drops the moment.
	open, idle *time.Timer
	// ctx ends with the keeper.
	ctx    context.Context
	cancel context.CancelFunc
}

// Begin takes the moment of all replicas that lead, but for that of the cluster's own records, and returns the
// partitions. Writers of them wait until Seal, Drop or StillMax.
func (k *Keeper) Begin(ctx context.Context, id string, replicas []*partition.Replica) ([]archive.Partition, error) {
	m := &kept{parts: map[topology.PartitionID]*partition.Moment{}, used: time.Now()}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	ctx, cancel := context.WithTimeout(ctx, StillMax)
	defer cancel()
	var mu sync.Mutex
	var beginning sync.WaitGroup
	var failures []error
	for _, r := range replicas {
		if r.ID() == topology.MetaPartition || !r.Leading() {
			continue
		}
		beginning.Go(func() {
			part, err := r.BeginMoment(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failures = append(failures, fmt.Errorf("partition %d: %w", r.ID(), err))
				return
			}
			m.parts[r.ID()] = part
		})
	}
	beginning.Wait()
	if len(failures) > 0 {
		return nil, errors.Join(append(failures, m.close())...)
	}
	out := make([]archive.Partition, 0, len(m.parts))
	for id, part := range m.parts {
		meta := part.Meta()
		out = append(out, archive.Partition{ID: uint64(id), Table: meta.Span.Table, Begin: meta.Span.Begin,
			End: meta.Span.End, Epoch: meta.Epoch, Term: meta.Term, Applied: meta.Applied})
	}
	return out, k.keep(id, m)
}

// keep makes a moment one that can be asked for.
func (k *Keeper) keep(id string, m *kept) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.moments[id] != nil || slices.Contains(k.dropped[:], id) {
		return errors.Join(ErrGone, m.close())
	}
	if len(k.moments) >= KeptMax {
		oldest := ""
		for name, other := range k.moments {
			if other.reading == 0 && (oldest == "" || other.used.Before(k.moments[oldest].used)) {
				oldest = name
			}
		}
		if oldest == "" {
			return errors.Join(fmt.Errorf("%d backups read from this node: wait for one to end", KeptMax), m.close())
		}
		k.dropLocked(oldest)
	}
	if k.moments == nil {
		k.moments = map[string]*kept{}
	}
	k.moments[id] = m
	m.open = time.AfterFunc(StillMax, m.letGo)
	m.idle = time.AfterFunc(IdleMax, func() { k.expire(id) })
	return nil
}

// letGo lets writers in.
func (m *kept) letGo() {
	for _, part := range m.parts {
		part.LetGo()
	}
}

func (m *kept) close() error {
	m.cancel()
	var errs []error
	for _, part := range m.parts {
		errs = append(errs, part.Close())
	}
	return errors.Join(errs...)
}

// expire drops a moment that nobody has asked for, or looks again.
func (k *Keeper) expire(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.moments[id]
	if m == nil {
		return
	}
	if left := IdleMax - time.Since(m.used); m.reading > 0 || left > 0 {
		m.idle.Reset(max(left, time.Second))
		return
	}
	k.dropLocked(id)
}

// Seal lets the writers in. An error says that the states may not be those of one instant.
func (k *Keeper) Seal(ctx context.Context, id string) error {
	m, err := k.enter(id)
	if err != nil {
		return err
	}
	defer k.leave(m)
	var mu sync.Mutex
	var sealing sync.WaitGroup
	var failures []error
	for _, part := range m.parts {
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
func (k *Keeper) Page(ctx context.Context, a *archive.FileRequest) ([]byte, error) {
	m, err := k.enter(a.ID)
	if err != nil {
		return nil, err
	}
	defer k.leave(m)
	part := m.parts[topology.PartitionID(a.Partition)]
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

// idLen is how long the id of a table is, which all its keys begin with.
const idLen = 4

func read(ctx context.Context, part *partition.Moment, a *archive.FileRequest) (*archive.FileResponse, error) {
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

// enter counts a reader in.
func (k *Keeper) enter(id string) (*kept, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.moments[id]
	if m == nil || k.closed {
		return nil, ErrGone
	}
	k.readers.Add(1)
	m.reading++
	m.used = time.Now()
	return m, nil
}

func (k *Keeper) leave(m *kept) {
	defer k.readers.Done()
	k.mu.Lock()
	defer k.mu.Unlock()
	m.used = time.Now()
	if m.reading--; m.reading == 0 && m.gone {
		_ = m.close() // the store says so itself if it is broken
	}
}

// Drop gives a moment up, also one that is yet to begin here.
func (k *Keeper) Drop(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropped[k.drops%droppedMax] = id
	k.drops++
	k.dropLocked(id)
}

func (k *Keeper) dropLocked(id string) {
	m := k.moments[id]
	if m == nil {
		return
	}
	delete(k.moments, id)
	m.open.Stop()
	m.idle.Stop()
	m.gone = true
	m.letGo()
	if m.reading == 0 {
		_ = m.close() // as above
	}
}

// Close ends what reads, drops all moments, and refuses new ones.
func (k *Keeper) Close() error {
	k.mu.Lock()
	k.closed = true
	for _, m := range k.moments {
		m.cancel()
	}
	k.mu.Unlock()
	k.readers.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for id := range k.moments {
		k.dropLocked(id)
	}
	return nil
}
