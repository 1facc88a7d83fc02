// SPDX-License-Identifier: Apache-2.0

package census

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/replica/storage"
)

const (
	// LargestMost is how many of the largest logical partitions of a replica are told.
	LargestMost = 10
	// readMax is up to how many bytes on disk a replica is read as a whole to find them. In a larger one they are
	// looked for in heavyPlaces places at even distances of its bytes, where surveyBytes are read at most. Rows of
	// 16 KiB and more lie beside the others, and count for little there: those places are estimates.
	readMax     = 256 << 20
	heavyPlaces = 1024
	surveyBytes = 64 << 20
	// largestAge is how old what is known may be where something was applied since.
	largestAge = time.Minute
	// weighRest is how many times as long as a part took nothing is read after it.
	weighRest = 9
)

// Large is a logical partition that is larger than others. Bytes are logical; Estimated says that not all of it was
// read.
type Large struct {
	Token     token.Token
	Key       []byte
	Bytes     int64
	Estimated bool
}

// Largest finds the largest logical partitions of the replicas that this node leads, when somebody asks. Those of a
// replica with up to 256 MiB on disk are exact; in a larger one each that has more than 1/1024 of it is found. One
// tenth of a processor is taken for it, at most. Its methods may be used concurrently.
type Largest struct {
	Store *storage.Statistics
	// Replicas are those of the node, Now the second at which expiry is judged.
	Replicas func() []*partition.Replica
	Now      func() int64
	// ReadMax is up to how many bytes on disk a replica is read as a whole; 256 MiB if 0.
	ReadMax uint64

	once sync.Once
	wake chan struct{}

	mu sync.Mutex
	of map[topology.PartitionID]*weighed
}

type weighed struct {
	large   []Large
	applied uint64
	epoch   uint64
	at      time.Time
}

func (l *Largest) begin() {
	l.once.Do(func() { l.wake, l.of = make(chan struct{}, 1), map[topology.PartitionID]*weighed{} })
}

// Of are the largest logical partitions of a replica that is led here, as far as they are known, largest first; and it
// has them looked for again. They must not be changed.
func (l *Largest) Of(id topology.PartitionID) []Large {
	l.begin()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.of[id]; w != nil {
		return w.large
	}
	return nil
}

// Run looks for them until ctx ends.
func (l *Largest) Run(ctx context.Context) {
	l.begin()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		l.round(ctx)
	}
}

// round looks at the replicas that have changed, and forgets those that are gone.
func (l *Largest) round(ctx context.Context) {
	led := map[topology.PartitionID]bool{}
	for _, r := range l.Replicas() {
		if r.ID() == topology.MetaPartition || r.Table() < keys.FirstTable || !r.Leading() {
			continue
		}
		led[r.ID()] = true
		span, epoch := r.Span()
		l.mu.Lock()
		old := l.of[r.ID()]
		l.mu.Unlock()
		w := &weighed{applied: r.Applied(), epoch: epoch, at: time.Now()}
		if old != nil && old.epoch == epoch && (old.applied == w.applied || time.Since(old.at) < largestAge) {
			continue
		}
		var err error
		if w.large, err = l.find(ctx, span.Keys(r.Table())); err != nil {
			continue // the store says of itself what is wrong with it
		}
		l.mu.Lock()
		l.of[r.ID()] = w
		l.mu.Unlock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.of {
		if !led[id] {
			delete(l.of, id)
		}
	}
}

// rest waits for so long that a tenth of a processor was taken since a moment.
func rest(ctx context.Context, since time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(weighRest * time.Since(since)):
		return nil
	}
}

// find finds the largest logical partitions of a span.
func (l *Largest) find(ctx context.Context, span keys.Span) ([]Large, error) {
	onDisk, err := l.Store.DiskBytes(span)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if onDisk > cmp.Or(l.ReadMax, readMax) {
		out, err := l.survey(ctx, span)
		return out, errors.Join(err, rest(ctx, began))
	}
	var out []Large
	p := storage.Passage{Now: l.Now(), Max: passageMax, Sizes: true, RowsMax: 1 << 30}
	for more := true; more; {
		more, err = l.Store.Pass(ctx, span, &p, func(tok token.Token, bytes int64) {
			if out = append(out, Large{Token: tok, Bytes: bytes}); len(out) >= 4*LargestMost {
				out = first(out)
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
	return first(out), nil
}

// survey looks where most of the bytes are.
func (l *Largest) survey(ctx context.Context, span keys.Span) ([]Large, error) {
	s, err := l.Store.Survey(ctx, span, storage.SurveyOptions{Spots: 1, Run: 1, Heavy: heavyPlaces, RowsKept: 1,
		Bytes: surveyBytes, Now: l.Now()})
	var out []Large
	for i := range s.Partitions {
		p := &s.Partitions[i]
		out = append(out, Large{Token: p.Token, Key: p.Key, Bytes: int64(p.Bytes), Estimated: p.Partial})
	}
	return first(out), err
}

// first are the largest of a list.
func first(list []Large) []Large {
	slices.SortFunc(list, func(a, b Large) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Token, b.Token))
	})
	return list[:min(len(list), LargestMost)]
}
