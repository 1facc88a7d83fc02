// SPDX-License-Identifier: Apache-2.0

package partitioncount

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// LargestMax is the maximum number of partitions that LargestFinder reports for each replica.
	LargestMax = 10
	// readMax is the maximum size on disk, in bytes, of a replica that is read completely. A larger replica is sampled
	// at heavySpots positions that are evenly spaced by bytes, up to sampleBytes. The positions are approximate,
	// because large rows are stored in separate files.
	readMax     = 256 << 20
	heavySpots  = 1024
	sampleBytes = 64 << 20
	// largestAge is the maximum age of a result if the replica has applied new entries.
	largestAge = time.Minute
	// largestRest is the duration of the pause after a read, as a multiple of the duration of the read.
	largestRest = 9
)

// LargePartition is a large logical partition of a replica. Bytes is its logical size. Estimated reports whether only a
// part of the partition was read.
type LargePartition struct {
	Token     token.Token
	Key       []byte
	Bytes     int64
	Estimated bool
}

// LargestFinder finds, on request, the largest logical partitions of the replicas that lead on this node. The result is
// exact for replicas of up to 256 MiB on disk. In a larger replica, LargestFinder finds every partition above 1/1024 of
// the replica's size. The search uses up to one tenth of one CPU. LargestFinder is safe for concurrent use.
type LargestFinder struct {
	Store *storage.Statistics
	Host  *partition.Host
	// Clock determines which data has expired.
	Clock sched.Clock
	// ReadMax is the maximum size on disk, in bytes, of a replica that is read completely. The default is 256 MiB.
	ReadMax uint64

	once sync.Once
	wake chan struct{}

	mu      sync.Mutex
	results map[topology.PartitionID]*largestResult
}

type largestResult struct {
	partitions []LargePartition
	applied    uint64
	epoch      uint64
	at         time.Time
}

func (l *LargestFinder) init() {
	l.once.Do(func() { l.wake, l.results = make(chan struct{}, 1), map[topology.PartitionID]*largestResult{} })
}

// Latest returns the largest known logical partitions of a replica, largest first, and requests a new search. The
// result is empty unless the leader of the partition is on this node. The caller must not modify it.
func (l *LargestFinder) Latest(id topology.PartitionID) []LargePartition {
	l.init()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.results[id]; w != nil {
		return w.partitions
	}
	return nil
}

// Run searches for large partitions on request until ctx ends.
func (l *LargestFinder) Run(ctx context.Context) {
	l.init()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.round(ctx)
	}
}

// round searches the replicas that have changed and deletes the results of removed replicas.
func (l *LargestFinder) round(ctx context.Context) {
	led := map[topology.PartitionID]bool{}
	for _, r := range l.Host.Replicas() {
		if r.ID() == topology.MetaPartition || r.Table() < keys.FirstTable || !r.Leading() {
			continue
		}
		led[r.ID()] = true
		span, epoch := r.Span()
		l.mu.Lock()
		old := l.results[r.ID()]
		l.mu.Unlock()
		w := &largestResult{applied: r.Applied(), epoch: epoch, at: time.Now()}
		if old != nil && old.epoch == epoch && (old.applied == w.applied || time.Since(old.at) < largestAge) {
			continue
		}
		var err error
		if w.partitions, err = l.find(ctx, span.Keys(r.Table())); err != nil {
			continue // the store reports its own errors
		}
		l.mu.Lock()
		l.results[r.ID()] = w
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.results {
		if !led[id] {
			delete(l.results, id)
		}
	}
}

// rest pauses to limit the work since the given time to a tenth of one CPU.
func rest(ctx context.Context, since time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(largestRest * time.Since(since)):
		return nil
	}
}

// find returns the largest logical partitions of a span.
func (l *LargestFinder) find(ctx context.Context, span keys.Span) ([]LargePartition, error) {
	onDisk, err := l.Store.DiskBytes(span)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if onDisk > cmp.Or(l.ReadMax, readMax) {
		out, err := l.sample(ctx, span)
		return out, errors.Join(err, rest(ctx, began))
	}
	var out []LargePartition
	p := storage.PartitionWalk{Now: l.Clock.Wall().Unix(), Max: walkMax, Sizes: true, RowsMax: 1 << 30}
	for more := true; more; {
		more, err = l.Store.WalkPartitions(ctx, span, &p, func(tok token.Token, bytes int64) {
			if out = append(out, LargePartition{Token: tok, Bytes: bytes}); len(out) >= 4*LargestMax {
				out = largestOf(out)
			}
		})
		if err == nil {
			err = rest(ctx, began)
		}
		if err != nil {
			return nil, err
		}
		began = time.Now()
	}
	return largestOf(out), nil
}

// sample finds the largest partitions at positions that are evenly spaced by bytes.
func (l *LargestFinder) sample(ctx context.Context, span keys.Span) ([]LargePartition, error) {
	s, err := l.Store.Sample(ctx, span, storage.SampleOptions{Spots: 1, Run: 1, HeavySpots: heavySpots, RowsKept: 1,
		Bytes: sampleBytes, Now: l.Clock.Wall().Unix()})
	var out []LargePartition
	for i := range s.Partitions {
		p := &s.Partitions[i]
		out = append(out, LargePartition{Token: p.Token, Key: p.Key, Bytes: int64(p.Bytes), Estimated: p.Partial})
	}
	return largestOf(out), err
}

// largestOf returns the largest elements of list, in descending order.
func largestOf(list []LargePartition) []LargePartition {
	slices.SortFunc(list, func(a, b LargePartition) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Token, b.Token))
	})
	return list[:min(len(list), LargestMax)]
}
