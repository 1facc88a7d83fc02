// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
)

// Read passes what q finds to v: of one logical partition, or of all in a range, in ring order. Epoch is filled in.
func (c *Coordinator) Read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if err := c.admit(); err != nil {
		return err
	}
	defer c.leave()
	c.stats.reads.Add(1)
	r := c.relays.Get().(*relay)
	r.begin(v, c.sched.Now().Add(c.opts.ReadTimeout))
	var err error
	switch {
	case c.cluster != nil:
		err = c.readInCluster(ctx, q, r)
	case q.Key != nil:
		err = c.readKey(ctx, q, r)
	default:
		err = c.readRange(ctx, q, r)
	}
	switch {
	case err == nil:
	case r.failure != nil && errors.Is(err, r.failure):
		err = r.failure // what the visitor itself returned goes back unchanged
	case c.cluster != nil: // it is an answer already
	default:
		err = readError(err, q.Level, r.seen)
	}
	r.v, r.failure, r.sub = nil, nil, command.Read{}
	c.relays.Put(r)
	return err
}

// readKey reads one logical partition, which is in one physical partition.
func (c *Coordinator) readKey(ctx context.Context, q *command.Read, r *relay) error {
	t := trace.From(ctx)
	var again retry
	for {
		view := c.view.Load()
		p := view.snapshot.Locate(q.Table, q.Token, q.Key)
		if p == nil {
			return ErrUnknownTable
		}
		err := errNoReplica
		if replica := c.replica(p); replica != nil {
			q.Epoch = p.Epoch
			c.note(t, "Reading from", p)
			err = replica.Read(ctx, q, r)
		}
		if err == nil || r.seen || !misrouted(err) {
			return err
		}
		if c.wait(ctx, &again, view, c.opts.ReadTimeout) != nil {
			return err
		}
	}
}

// readRange goes from physical partition to physical partition. cursor is the position before which all is read: it, and no partition id,
// says where to go on when the map changes.
func (c *Coordinator) readRange(ctx context.Context, q *command.Read, r *relay) error {
	ctx, cancel := c.sched.WithDeadline(ctx, r.deadline)
	defer cancel()
	t := trace.From(ctx)
	sub := *q
	cursor := topology.Position{Ring: q.Range.Begin}
	if q.AfterKey != nil {
		if after := topology.At(q.AfterToken, q.AfterKey); cursor.Compare(after) < 0 {
			cursor = after
		}
	}
	var again retry
	touched := 0
	for {
		view := c.view.Load()
		i := view.snapshot.Find(q.Table, cursor)
		if i < 0 {
			return ErrUnknownTable
		}
		p := view.snapshot.Partitions(q.Table)[i]
		err := errNoReplica
		if replica := c.replica(p); replica != nil {
			sub.Range.Begin, sub.Epoch, r.from, r.inPartition = cursor.Ring, p.Epoch, cursor, false
			c.note(t, "Reading from", p)
			err = replica.Read(ctx, &sub, r)
			touched++
		}
		switch {
		case err == nil:
			cursor = p.Span.Limit
			if r.stopped || cursor.IsZero() || q.Range.Limit != 0 && cursor.Compare(topology.Position{Ring: q.Range.Limit}) >= 0 {
				if t != nil {
					t.Add("Read from " + strconv.Itoa(touched) + " physical partitions of table " + c.opts.TableName(q.Table))
				}
				return nil
			}
			again = retry{}
			continue
		case !misrouted(err):
			return err
		}
		if r.inPartition {
			cursor = r.resume(&sub)
		}
		if c.wait(ctx, &again, view, c.opts.ReadTimeout) != nil {
			return err
		}
	}
}

// relay stands between a replica and the visitor: it keeps the deadline, remembers a stop, and knows where to go on.
type relay struct {
	sched    *sched.Scheduler
	v        command.Visitor
	deadline time.Time
	// from hides what was read before, should a merge of partitions have brought it in.
	from topology.Position
	// stopped: the visitor wants no more. seen: it was given something.
	stopped, seen bool
	// failure is the visitor's own error.
	failure error
	rows    uint
	// heard is set by the first call, for who watches from another goroutine.
	heard atomic.Bool
	// sub is the command sent to one physical partition of a cluster.
	sub command.Read

	// The last position passed on; key and clustering are copies. inPartition: it was in the physical partition being read.
	// leftPartition: the visitor wants no more of it.
	inPartition, inRow, leftPartition bool
	tok                               token.Token
	key, clustering                   []byte
	// resumed: the next call of Partition with the last key repeats the one before the interruption.
	resumed bool
}

// begin prepares a relay for a read.
func (r *relay) begin(v command.Visitor, deadline time.Time) {
	key, clustering := r.key[:0], r.clustering[:0]
	r.heard.Store(false)
	r.v, r.deadline, r.from, r.failure, r.rows, r.tok = v, deadline, topology.Position{}, nil, 0, 0
	r.stopped, r.seen, r.inPartition, r.inRow, r.leftPartition, r.resumed = false, false, false, false, false, false
	r.key, r.clustering = key, clustering
}

// resume makes q go on behind the last position, which it returns.
func (r *relay) resume(q *command.Read) topology.Position {
	key := bytes.Clone(r.key)
	switch {
	case r.leftPartition:
		q.AfterKey, q.AfterToken, q.AfterClustering, q.AfterPartition = key, r.tok, nil, true
	case r.inRow:
		q.AfterKey, q.AfterToken, q.AfterClustering, q.AfterPartition = key, r.tok, append([]byte{}, r.clustering...), false
		r.resumed = true
	default: // the partition was announced, none of its rows has come: what q resumes behind stays
		r.resumed = true
	}
	return topology.At(r.tok, key)
}

// checkEvery is how many rows pass between two looks at the clock.
const checkEvery = 256

// Partition implements command.Visitor.
func (r *relay) Partition(t token.Token, key []byte, static *row.Row) (command.Step, error) {
	if !r.heard.Load() {
		r.heard.Store(true)
	}
	if !r.from.IsZero() && topology.At(t, key).Compare(r.from) < 0 {
		return command.NextPartition, nil
	}
	if r.resumed {
		r.resumed = false
		if t == r.tok && bytes.Equal(key, r.key) {
			r.inPartition = true
			return command.More, nil
		}
	}
	if err := r.tick(); err != nil {
		return command.Stop, err
	}
	r.seen, r.inPartition, r.inRow, r.leftPartition = true, true, false, false
	r.tok, r.key = t, append(r.key[:0], key...)
	return r.pass(r.v.Partition(t, key, static))
}

// Row implements command.Visitor.
func (r *relay) Row(clustering []byte, found *row.Row) (command.Step, error) {
	if err := r.tick(); err != nil {
		return command.Stop, err
	}
	r.inRow = true
	r.clustering = append(r.clustering[:0], clustering...)
	return r.pass(r.v.Row(clustering, found))
}

func (r *relay) tick() error {
	if r.rows++; r.rows%checkEvery == 0 && r.sched.Now().After(r.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// pass remembers the visitor's answer.
func (r *relay) pass(s command.Step, err error) (command.Step, error) {
	switch {
	case err != nil:
		r.failure = err
	case s == command.Stop:
		r.stopped = true
	case s == command.NextPartition:
		r.leftPartition = true
	}
	return s, err
}
