// SPDX-License-Identifier: Apache-2.0

// Package census counts the logical partitions that the replicas of a node hold.
//
// Writes read nothing and so cannot tell a new partition from an old one, and a deletion does not know whether it was
// the last row's: a counter kept by writes would be wrong, or cost a read for each of them. What is exact is a walk
// over the partitions. It costs about a microsecond of processor time for each, so it is taken when somebody asks, and
// only of replicas that have applied something since they were counted last.
//
// Guarantees: (U1) a count is the number of partitions with a live row or static cell, as a read would find them
// between Count.Began and Count.Ended; (U2) all counting together takes one tenth of one processor at most, whoever
// asks how often; (U3) nobody waits longer than they want: an older count is given then, or none. It knows nothing of
// clients.
// Start at Census.Ask, then round.
package census

import (
	"bytes"
	"context"
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
	// passageMax is how many partitions are counted in one walk: files that compactions have replaced are kept while it
	// lasts.
	passageMax = 50_000
	// restShare is how many times as long as a round took nothing is counted after it (U2).
	restShare = 9
	// expiryMax is how old the count of an unchanged replica may get: rows expire before they are swept.
	expiryMax = 10 * time.Second
	// samplesMax and rowsMax bound what is read of a piece to learn the mean size of a partition.
	samplesMax = 32
	rowsMax    = 1000
)

// Piece is a part of a replica's span: that between two neighbours on the ring.
type Piece struct {
	Range      token.Range
	Partitions uint64
	// MeanBytes is the mean size of a partition: logical bytes of a sample, or bytes on disk if they are more.
	MeanBytes uint64
}

// Count is what was counted of a replica.
type Count struct {
	Partitions uint64
	// Began and Ended say when it was counted.
	Began, Ended time.Time
	// Pieces tile the span of the replica, in ring order.
	Pieces []Piece

	applied uint64
	cuts    []token.Token
	span    keys.Span
}

// Options is what a census is taken of.
type Options struct {
	Store *storage.Statistics
	// Replicas are those of the node.
	Replicas func() []*partition.Replica
	// Cuts are the tokens at which spans are cut into pieces, ascending: a piece ends with a token.
	Cuts func() []token.Token
	// Now is the second at which expiry is judged.
	Now func() int64
}

// Census counts what a node holds. Its methods may be used concurrently.
type Census struct {
	o    Options
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	counts map[topology.PartitionID]*Count
	// begun and ended number the rounds; turn is closed and replaced when one has ended.
	begun, ended uint64
	turn         chan struct{}
}

// New makes a census that counts while Run runs.
func New(o Options) *Census {
	return &Census{o: o, wake: make(chan struct{}, 1), counts: map[topology.PartitionID]*Count{},
		turn: make(chan struct{})}
}

// Of is the newest count of a replica, nil if there is none yet. It must not be changed.
func (c *Census) Of(id topology.PartitionID) *Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[id]
}

// Ask has everything counted that may have changed, and waits for that as long as told, or until ctx ends.
func (c *Census) Ask(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	c.mu.Lock()
	wanted := c.begun + 1 // what has begun may have passed already what is to be seen
	for c.ended < wanted {
		turn := c.turn
		c.mu.Unlock()
		select {
		case c.wake <- struct{}{}:
		default:
		}
		select {
		case <-turn:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// Run counts for those that ask, until ctx ends.
func (c *Census) Run(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		c.mu.Lock()
		c.begun++
		c.mu.Unlock()
		took := c.round(ctx)
		c.mu.Lock()
		c.ended = c.begun
		close(c.turn)
		c.turn = make(chan struct{})
		c.mu.Unlock()
		rest.Reset(restShare * took)
	}
}

// round counts the replicas that have changed, and forgets those that are gone. It returns how long it took.
func (c *Census) round(ctx context.Context) time.Duration {
	began := time.Now()
	cuts := c.o.Cuts()
	here := map[topology.PartitionID]bool{}
	for _, r := range c.o.Replicas() {
		id := r.ID()
		here[id] = true
		table := r.Table()
		if id == topology.MetaPartition || table < keys.FirstTable {
			continue // it is told what it holds when it is installed
		}
		applied := r.Applied()
		span, _ := r.Span()
		whole := span.Keys(table)
		if old := c.Of(id); old != nil && old.applied == applied && old.sameAs(whole, cuts) &&
			began.Sub(old.Ended) < expiryMax {
			continue
		}
		n, err := c.count(ctx, whole, cuts)
		if err != nil {
			continue // the store says of itself what is wrong with it
		}
		n.applied = applied
		c.mu.Lock()
		c.counts[id] = n
		c.mu.Unlock()
	}
	c.mu.Lock()
	for id := range c.counts {
		if !here[id] {
			delete(c.counts, id)
		}
	}
	c.mu.Unlock()
	return time.Since(began)
}

// sameAs reports whether a count was of the same pieces.
func (n *Count) sameAs(span keys.Span, cuts []token.Token) bool {
	return n.span.Table == span.Table && bytes.Equal(n.span.Begin, span.Begin) &&
		bytes.Equal(n.span.End, span.End) && slices.Equal(n.cuts, cuts)
}

// count walks over the partitions of a span.
func (c *Census) count(ctx context.Context, span keys.Span, cuts []token.Token) (*Count, error) {
	n := &Count{Began: time.Now(), span: span, cuts: cuts, Pieces: cut(span.Tokens(), cuts)}
	p := storage.Passage{Now: c.o.Now(), Max: passageMax}
	at := 0
	for more := true; more; {
		var err error
		more, err = c.o.Store.Pass(ctx, span, &p, func(tok token.Token, _ int64) {
			for at < len(n.Pieces)-1 && !n.Pieces[at].Range.Contains(tok) {
				at++
			}
			n.Pieces[at].Partitions++
			n.Partitions++
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range n.Pieces {
		if err := c.weigh(ctx, span, &n.Pieces[i], p.Now); err != nil {
			return nil, err
		}
	}
	n.Ended = time.Now()
	return n, nil
}

// cut divides a range at tokens.
func cut(r token.Range, cuts []token.Token) []Piece {
	var out []Piece
	for _, t := range cuts {
		end := t.Position() + 1
		if t == token.Min || end == 0 || !r.Contains(t) || end == r.Limit {
			continue // no key has the least token, and the ring ends there
		}
		out = append(out, Piece{Range: token.Range{Begin: r.Begin, Limit: end}})
		r.Begin = end
	}
	return append(out, Piece{Range: r})
}

// weigh learns the mean size of the partitions of a piece.
func (c *Census) weigh(ctx context.Context, span keys.Span, piece *Piece, now int64) error {
	if piece.Partitions == 0 {
		return nil
	}
	part := keys.TokenSpan(span.Table, piece.Range)
	p := storage.Passage{Now: now, Max: samplesMax, Sizes: true, RowsMax: rowsMax}
	var seen, bytes int64
	if _, err := c.o.Store.Pass(ctx, part, &p, func(_ token.Token, b int64) {
		seen++
		bytes += b
	}); err != nil {
		return err
	}
	if seen > 0 {
		piece.MeanBytes = uint64(bytes / seen)
	}
	onDisk, err := c.o.Store.DiskBytes(part)
	if err != nil {
		return err
	}
	piece.MeanBytes = max(piece.MeanBytes, onDisk/piece.Partitions)
	return nil
}
