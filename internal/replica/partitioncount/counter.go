// SPDX-License-Identifier: Apache-2.0

// Package partitioncount counts the logical partitions that the replicas of a node hold.
//
// Writes cannot maintain the count, because a write reads no data and cannot distinguish a new partition from an
// existing partition. Only a scan over the partitions is exact. The scan costs about a microsecond of CPU time per
// partition. It therefore runs only on request, and skips replicas that have applied no entries since the last count.
//
// Guarantees:
//
//   - (U1) A count is the number of partitions that had a live row or a live static cell between Count.Began and
//     Count.Ended.
//   - (U2) Counting uses up to one tenth of one CPU, regardless of the number of requests.
//   - (U3) Refresh waits no longer than its caller allows. After the timeout, the caller gets an older count or no
//     count.
//
// Start reading at Counter.Refresh, then read Counter.round.
package partitioncount

import (
	"bytes"
	"context"
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
	// walkMax is the maximum number of partitions counted in one scan. The limit is necessary because Pebble keeps
	// replaced files until a scan ends.
	walkMax = 50_000
	// countRest is the duration of the pause after a round, as a multiple of the duration of the round (U2).
	countRest = 9
	// expiryMax is the maximum age of the count of an unchanged replica. The limit is necessary because rows expire.
	expiryMax = 10 * time.Second
	// samplesMax and rowsMax limit the reads that estimate the mean partition size of a piece.
	samplesMax = 32
	rowsMax    = 1000
)

// Piece is a part of a replica's span, between two adjacent boundaries on the ring.
type Piece struct {
	Range      token.Range
	Partitions uint64
	// MeanBytes is the mean partition size. It is the maximum of the mean logical size of a sample and the mean size on
	// disk.
	MeanBytes uint64
}

// Count is the result of counting one replica.
type Count struct {
	Partitions uint64
	// Began and Ended are the times at which counting started and finished.
	Began, Ended time.Time
	// Pieces cover the span of the replica without gaps or overlaps, in ring order.
	Pieces []Piece

	applied    uint64
	boundaries []token.Token
	span       keys.Span
}

// Counter counts the logical partitions on a node. It is safe for concurrent use.
type Counter struct {
	store *storage.Statistics
	host  *partition.Host
	clock sched.Clock
	wake  chan struct{}

	mu     sync.Mutex // mu guards the fields below
	counts map[topology.PartitionID]*Count
	// started and finished are the numbers of the most recently started and finished rounds. roundDone is closed and
	// replaced at the end of each round.
	started, finished uint64
	roundDone         chan struct{}
}

// New returns a Counter that counts while Run runs. The clock determines which data has expired.
func New(store *storage.Statistics, host *partition.Host, clock sched.Clock) *Counter {
	return &Counter{store: store, host: host, clock: clock, wake: make(chan struct{}, 1),
		counts: map[topology.PartitionID]*Count{}, roundDone: make(chan struct{})}
}

// Latest returns the most recent count of a replica, or nil if the replica has not been counted. The caller must not
// modify the result.
func (c *Counter) Latest(id topology.PartitionID) *Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[id]
}

// Refresh requests a count of every replica that may have changed. It returns when the count has finished, when wait
// has passed, or when ctx ends.
func (c *Counter) Refresh(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	c.mu.Lock()
	wanted := c.started + 1 // the running round may have already scanned the replicas
	for c.finished < wanted {
		turn := c.roundDone
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

// Run counts partitions on request until ctx ends. boundaries returns the tokens that divide spans into pieces, in
// ascending order. A boundary is the last token of its piece.
func (c *Counter) Run(ctx context.Context, boundaries func() []token.Token) {
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
		c.started++
		c.mu.Unlock()
		took := c.round(ctx, boundaries())
		c.mu.Lock()
		c.finished = c.started
		close(c.roundDone)
		c.roundDone = make(chan struct{})
		c.mu.Unlock()
		rest.Reset(countRest * took)
	}
}

// round counts the replicas that have changed, and deletes the counts of removed replicas. It returns the duration of
// the round.
func (c *Counter) round(ctx context.Context, cuts []token.Token) time.Duration {
	began := time.Now()
	here := map[topology.PartitionID]bool{}
	for _, r := range c.host.Replicas() {
		id := r.ID()
		here[id] = true
		table := r.Table()
		if id == topology.MetaPartition || table < keys.FirstTable {
			continue // the span is unknown until the first snapshot is installed
		}
		applied := r.Applied()
		span, _ := r.Span()
		whole := span.Keys(table)
		if old := c.Latest(id); old != nil && old.applied == applied && old.sameAs(whole, cuts) &&
			began.Sub(old.Ended) < expiryMax {
			continue
		}
		n, err := c.count(ctx, whole, cuts)
		if err != nil {
			continue // the store reports its own errors
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

// sameAs reports whether two counts used the same span and boundaries.
func (n *Count) sameAs(span keys.Span, cuts []token.Token) bool {
	return n.span.Table == span.Table && bytes.Equal(n.span.Begin, span.Begin) &&
		bytes.Equal(n.span.End, span.End) && slices.Equal(n.boundaries, cuts)
}

// count counts the partitions of a span.
func (c *Counter) count(ctx context.Context, span keys.Span, cuts []token.Token) (*Count, error) {
	n := &Count{Began: time.Now(), span: span, boundaries: cuts, Pieces: divide(span.Tokens(), cuts)}
	p := storage.PartitionWalk{Now: c.clock.Wall().Unix(), Max: walkMax}
	at := 0
	for more := true; more; {
		var err error
		more, err = c.store.WalkPartitions(ctx, span, &p, func(tok token.Token, _ int64) {
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
		if err := c.measure(ctx, span, &n.Pieces[i], p.Now); err != nil {
			return nil, err
		}
	}
	n.Ended = time.Now()
	return n, nil
}

// divide divides a range at the given tokens.
func divide(r token.Range, cuts []token.Token) []Piece {
	var out []Piece
	for _, t := range cuts {
		end := t.Position() + 1
		if t == token.Min || end == 0 || !r.Contains(t) || end == r.Limit {
			continue // no key has the minimum token, which is at the end of the ring
		}
		out = append(out, Piece{Range: token.Range{Begin: r.Begin, Limit: end}})
		r.Begin = end
	}
	return append(out, Piece{Range: r})
}

// measure estimates the mean partition size of a piece.
func (c *Counter) measure(ctx context.Context, span keys.Span, piece *Piece, now int64) error {
	if piece.Partitions == 0 {
		return nil
	}
	part := keys.TokenSpan(span.Table, piece.Range)
	p := storage.PartitionWalk{Now: now, Max: samplesMax, Sizes: true, RowsMax: rowsMax}
	var seen, bytes int64
	if _, err := c.store.WalkPartitions(ctx, part, &p, func(_ token.Token, b int64) {
		seen++
		bytes += b
	}); err != nil {
		return err
	}
	if seen > 0 {
		piece.MeanBytes = uint64(bytes / seen)
	}
	onDisk, err := c.store.DiskBytes(part)
	if err != nil {
		return err
	}
	piece.MeanBytes = max(piece.MeanBytes, onDisk/piece.Partitions)
	return nil
}
