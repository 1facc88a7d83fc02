// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// batch is an atomic write in progress. Each batch runs on a separate goroutine. If all parts belong to one physical
// partition, the batch is one entry in the partition's log. If the parts belong to several partitions (RFC 0007), the
// batch has four steps:
//
//  1. The coordinator tries the updates on the current rows and requests the highest timestamp of each participant. The
//     timestamp of the batch exceeds all these timestamps.
//  2. The coordinator writes all parts to the batch log table. After this step, the batch will be applied, even if an
//     error occurs.
//  3. The leader of each partition assigns a timestamp and applies its part once (batchlog_parts.go).
//  4. The coordinator removes the entry from the batch log asynchronously.
//
// A batch that fails before step 2 changes nothing and returns a corresponding error. After step 2, ReplayBatches
// finishes the batch if the coordinator does not. The write timeout applies separately to steps 1 and 2 and to step 3,
// because the batch may have to wait for two leader elections.
type batch struct {
	c        *Coordinator
	w        *write
	trace    *trace.Trace
	deadline time.Time
	// mutations and updates contain the encoded parts of the batch.
	mutations, updates [][]byte
	who                fairshare.Principal
}

// errSeparate is returned if the parts of a batch belong to several physical partitions.
var errSeparate = errors.New("the parts of the batch are in several physical partitions")

// writeTypeBatchLog is the write type of errors that occur before the batch log entry is known to be stored.
const writeTypeBatchLog = "BATCH_LOG"

// batch copies its arguments and runs the batch on another goroutine. batch notifies w exactly once.
func (c *Coordinator) batch(tr *trace.Trace, ms []command.Mutation, updates []*command.Conditional, w *write) {
	b := &batch{c: c, w: w, trace: tr, deadline: c.sched.Now().Add(c.opts.writeTime(w.timeout))}
	for i := range ms {
		b.who = ms[i].Principal
		b.mutations = append(b.mutations, command.AppendMutation(nil, &ms[i]))
	}
	for _, u := range updates {
		b.who, u.Issued = u.Mutation.Principal, c.opts.Clock.Wall().Unix()
		b.updates = append(b.updates, command.AppendConditional(nil, u))
	}
	if !c.tasks.start(b.run) {
		w.Done(command.Failed(errNoReplica))
	}
}

func (b *batch) run() {
	ctx, cancel := b.c.sched.WithDeadline(trace.With(b.c.tasks.ctx, b.trace), b.deadline)
	defer cancel()
	err := b.applyTogether(ctx)
	if errors.Is(err, errSeparate) {
		b.applySeparately(ctx)
		return
	}
	b.w.tell(command.Failed(err))
}

func (b *batch) newRequest() routedRequest {
	e := b.c.newRequest(b.w.level, b.c.opts.writeTime(b.w.timeout))
	e.deadline, e.who, e.bootStart = b.deadline, b.who, b.c.sched.Boot()
	return e
}

// parts decodes new copies of the parts. Each attempt needs new copies because leaders may set timestamps in place.
func (b *batch) parts() ([]partition.Part, error) {
	parts := make([]partition.Part, 0, len(b.mutations)+len(b.updates))
	for _, src := range b.mutations {
		m := new(command.Mutation)
		if err := command.DecodeMutation(m, bytes.Clone(src)); err != nil {
			return nil, err
		}
		parts = append(parts, partition.Part{Mutation: m})
	}
	for _, src := range b.updates {
		u := new(command.Conditional)
		if err := command.DecodeConditional(u, bytes.Clone(src)); err != nil {
			return nil, err
		}
		parts = append(parts, partition.Part{Mutation: &u.Mutation, Updates: u})
	}
	return parts, nil
}

// applyTogether writes a batch of one physical partition as one log entry. If the parts belong to several partitions,
// it returns errSeparate and changes nothing. If an attempt with an unknown outcome precedes a split of the partition,
// applyTogether returns a timeout.
func (b *batch) applyTogether(ctx context.Context) error {
	id := b.c.cluster.nextID()
	e := b.newRequest()
	e.localEpoch = b.c.cluster.local.DedupeEpoch()
	one, err := b.parts()
	if err != nil {
		return e.writeError(err, b.w.kind)
	}
	first := one[0].Mutation
	locate := func(v *view) *topology.Partition { return v.snapshot.Locate(first.Table, first.Token, first.Key) }
	err = e.run(ctx, "Writing a batch to", locate, func(ctx context.Context, t *target, p *topology.Partition) error {
		parts, err := b.parts()
		if err != nil {
			return err
		}
		for i := range parts {
			m := parts[i].Mutation
			if m.Table != p.Table || !p.Span.Holds(m.Position()) {
				return errSeparate
			}
			m.Epoch, m.Dedupe = p.Epoch, id
			e.setDedupe(m, t)
		}
		done := newWaiter(t)
		if err := t.member.WriteAll(ctx, parts, done); err != nil {
			return err
		}
		o := done.wait(ctx)
		if o.Err == nil {
			b.w.addCharge(ru.Units(o.Charge))
			noteCharge(b.trace, p.ID, ru.Units(o.Charge))
		}
		return o.Err
	})
	if errors.Is(err, errSeparate) {
		if !e.maybeApplied {
			return errSeparate
		}
		err = partition.ErrUncertain // an attempt before the split may have been applied
	}
	return e.writeError(err, b.w.kind)
}

// applySeparately writes a batch of several physical partitions and notifies w.
func (b *batch) applySeparately(ctx context.Context) {
	c := b.c
	if c.cluster.Batches == nil {
		b.w.tell(command.Failed(dberr.Serverf("this node has no batchlog table")))
		return
	}
	c.stats.batches.Add(1)
	e := b.newRequest()
	begun := c.sched.Boot()
	r, err := b.prepare(ctx)
	if err == nil {
		m := c.cluster.Batches.Record(r.id, r.stamp, r.append(nil))
		err = e.putMutation(ctx, "Writing a batchlog entry to", &m)
	}
	if err != nil {
		b.w.tell(command.Failed(e.writeError(err, writeTypeBatchLog)))
		return
	}
	if b.w.timeout == 0 {
		b.deadline = c.sched.Now().Add(c.opts.WriteTimeout)
	}
	ctx, cancel := c.sched.WithDeadline(trace.With(c.tasks.ctx, b.trace), b.deadline)
	defer cancel()
	err = c.applyParts(ctx, r, b.newRequest(), leaderStamp, b.w.addCharge)
	if err != nil || c.sched.Boot()-begun > c.opts.ackWindow() {
		timeout := &dberr.WriteTimeout{Level: b.w.level, BlockFor: max(1, e.required), WriteType: b.w.kind}
		b.w.tell(command.Failed(timeout))
		return
	}
	b.w.tell(command.Outcome{})
	_ = c.removeBatch(b.trace, r)
}

// nextBatch returns a new batch ID. The ID is a UUID that is derived from the node ID and the sequence number of the
// command.
func (cl *cluster) nextBatch() [16]byte {
	id := cl.nextID()
	b := [16]byte(id.Coordinator)
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])^id.Sequence)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

// prepare returns the batch log entry of the batch. It returns an error if an update cannot be applied to the current
// rows.
func (b *batch) prepare(ctx context.Context) (*batchlogEntry, error) {
	parts, err := b.parts()
	if err != nil {
		return nil, err
	}
	r := &batchlogEntry{id: b.c.cluster.nextBatch(), parts: make([]*command.Conditional, len(parts))}
	err = inParallel(b.c.sched, partsAtOnce, len(parts), func(i int) error {
		u := parts[i].Updates
		if u == nil {
			r.parts[i] = &command.Conditional{Mutation: *parts[i].Mutation}
			return nil
		}
		r.parts[i] = u
		e := b.newRequest()
		found, err := e.findRows(ctx, u)
		if err == nil {
			_, err = command.Resolve(nil, u, found, row.Unstamped)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	// The timestamp is chosen after the reads, so it exceeds the timestamps of all data that was read.
	r.stamp, err = b.stamp(ctx, parts)
	r.issued = r.stamp
	return r, err
}

// stamp returns a timestamp that exceeds all timestamps that the participants have assigned.
func (b *batch) stamp(ctx context.Context, parts []partition.Part) (int64, error) {
	v := b.c.view.Load()
	asked := map[topology.PartitionID]bool{}
	of := make([]*command.Mutation, 0, len(parts))
	for i := range parts {
		m := parts[i].Mutation
		p := v.snapshot.Locate(m.Table, m.Token, m.Key)
		if p == nil {
			return 0, ErrUnknownTable
		}
		if !asked[p.ID] {
			asked[p.ID] = true
			of = append(of, m)
		}
	}
	stamps := make([]int64, len(of))
	err := inParallel(b.c.sched, partsAtOnce, len(of), func(i int) error {
		e := b.newRequest()
		m := of[i]
		return e.run(ctx, "Requesting the last timestamp of", locator(m),
			func(ctx context.Context, t *target, p *topology.Partition) (err error) {
				stamps[i], err = t.member.Last(ctx, partition.ExtentOf(p), m.Principal)
				return err
			})
	})
	stamp := b.c.opts.Clock.Wall().UnixMicro()
	for _, s := range stamps {
		stamp = max(stamp, s+1)
	}
	return stamp, err
}

func locator(m *command.Mutation) func(*view) *topology.Partition {
	return func(v *view) *topology.Partition { return v.snapshot.Locate(m.Table, m.Token, m.Key) }
}

// putMutation writes a mutation with fixed timestamps and retries until it succeeds. The mutation has no dedupe ID,
// because repeated writes of the mutation have no effect and a replica would reject a forgotten ID.
func (e *routedRequest) putMutation(ctx context.Context, what string, m *command.Mutation) error {
	encoded := command.AppendMutation(nil, m)
	return e.run(ctx, what, locator(m), func(ctx context.Context, t *target, p *topology.Partition) error {
		fresh := new(command.Mutation)
		if err := command.DecodeMutation(fresh, bytes.Clone(encoded)); err != nil {
			return err
		}
		fresh.Epoch = p.Epoch
		done := newWaiter(t)
		if err := t.member.Write(ctx, fresh, done); err != nil {
			return err
		}
		return done.wait(ctx).Err
	})
}

// removeGrace limits the time that Close waits for the removal of the batch log entries of completed batches. A
// remaining entry is applied again later. The batch could then restore data that was deleted permanently, for example
// by a TRUNCATE.
const removeGrace = 500 * time.Millisecond

func (c *Coordinator) removeBatch(tr *trace.Trace, r *batchlogEntry) error {
	ctx, cancel := c.sched.WithTimeout(trace.With(context.WithoutCancel(c.tasks.ctx), tr), c.opts.WriteTimeout)
	defer cancel()
	defer c.sched.AfterDone(c.tasks.ctx, func() { c.sched.AfterFunc(removeGrace, cancel) })()
	e := c.newRequest(dberr.Quorum, c.opts.WriteTimeout)
	m := c.cluster.Batches.Remove(r.id, r.stamp+1)
	return e.putMutation(ctx, "Removing a batchlog entry from", &m)
}
