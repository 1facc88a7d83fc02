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
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// batch is an atomic write, on a goroutine of its own. In one physical partition it is one entry of that partition's
// log. Over several (RFC 0007):
//
//  1. its updates are tried on the rows as they are, and the participants are asked for their highest stamps: that of
//     the batch is above them;
//  2. its parts are recorded, whole, in the table of batches: from here on the batch will be carried out, whoever
//     fails;
//  3. every part is applied once, by the leader of its partition, which stamps it as it does any write (part.go);
//  4. the record is removed, which nobody waits for.
//
// Before 2 nothing was done, and a batch that fails there says so. After it Replay finishes what is left. A write's
// time is given up to 2, and again for 3: two leaders may be elected anew, one after the other.
type batch struct {
	c        *Coordinator
	w        *write
	trace    *trace.Trace
	deadline time.Time
	// mutations and updates are encoded as they came.
	mutations, updates [][]byte
	// who asks.
	who fairshare.Principal
}

// errApart says that the parts of a batch are not in one physical partition (any more).
var errApart = errors.New("the parts of the batch are in several physical partitions")

// batchLog is the write type of what fails before the record of a batch is known to be there.
const batchLog = "BATCH_LOG"

// batch takes copies and goes on elsewhere; w is told once.
func (c *Coordinator) batch(tr *trace.Trace, ms []command.Mutation, updates []*command.Conditional, w *write) {
	b := &batch{c: c, w: w, trace: tr, deadline: c.sched.Now().Add(c.opts.writeTime(w.timeout))}
	for i := range ms {
		b.who = ms[i].Principal
		b.mutations = append(b.mutations, command.AppendMutation(nil, &ms[i]))
	}
	for _, u := range updates {
		b.who, u.Issued = u.Mutation.Principal, c.opts.Now().Unix()
		b.updates = append(b.updates, command.AppendConditional(nil, u))
	}
	if !c.tasks.start(b.run) {
		w.Done(errNoReplica)
	}
}

func (b *batch) run() {
	ctx, cancel := b.c.sched.WithDeadline(trace.With(b.c.tasks.ctx, b.trace), b.deadline)
	defer cancel()
	err := b.together(ctx)
	if errors.Is(err, errApart) {
		b.apart(ctx)
		return
	}
	b.w.tell(err)
}

// errand is one of the batch's.
func (b *batch) errand() errand {
	e := b.c.errand(b.w.level, b.c.opts.writeTime(b.w.timeout))
	e.deadline, e.who, e.booted = b.deadline, b.who, b.c.sched.Boot()
	return e
}

// parts decodes fresh copies, because whatever carries them out may stamp them.
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

// together writes a batch of one physical partition as one entry, or says errApart and has done nothing. Of an attempt
// whose outcome is not known nobody can be asked once the parts are apart: that is a timeout.
func (b *batch) together(ctx context.Context) error {
	id := b.c.cluster.nextID()
	e := b.errand()
	e.memory = b.c.cluster.memory()
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
				return errApart
			}
			m.Epoch, m.Dedupe = p.Epoch, id
			e.attests(m, t)
		}
		done := &ending{told: make(chan struct{}), target: *t}
		if err := t.member.WriteAll(ctx, parts, done); err != nil {
			return err
		}
		if _, err = done.wait(ctx); err == nil {
			b.w.Charge(done.price)
			noteCharge(b.trace, p.ID, done.price)
		}
		return err
	})
	if errors.Is(err, errApart) {
		if !e.maybe {
			return errApart
		}
		err = partition.ErrUncertain // an attempt before the split may have been carried out, as one
	}
	return e.writeError(err, b.w.kind)
}

// apart writes a batch of several physical partitions, and tells w.
func (b *batch) apart(ctx context.Context) {
	c := b.c
	if c.cluster.Batches == nil {
		b.w.tell(dberr.Serverf("this node has no table of atomic batches"))
		return
	}
	c.stats.batches.Add(1)
	e := b.errand()
	begun := c.sched.Boot()
	r, err := b.prepare(ctx)
	if err == nil {
		m := c.cluster.Batches.Record(r.id, r.stamp, r.append(nil))
		err = e.put(ctx, "Recording a batch in", &m)
	}
	if err != nil {
		b.w.tell(e.writeError(err, batchLog))
		return
	}
	if b.w.timeout == 0 {
		b.deadline = c.sched.Now().Add(c.opts.WriteTimeout)
	}
	ctx, cancel := c.sched.WithDeadline(trace.With(c.tasks.ctx, b.trace), b.deadline)
	defer cancel()
	err = c.carryOut(ctx, r, b.errand(), byLeader, b.w.Charge)
	if err != nil || c.sched.Boot()-begun > c.opts.acknowledgedIn() {
		b.w.tell(&dberr.WriteTimeout{Level: b.w.level, BlockFor: max(1, e.required), WriteType: b.w.kind})
		return
	}
	b.w.tell(nil)
	_ = c.removeBatch(b.trace, r)
}

// nextBatch is the id of a batch, in the form of a UUID: the node's, with the number of the command in its second half.
func (cl *cluster) nextBatch() [16]byte {
	id := cl.nextID()
	b := [16]byte(id.Coordinator)
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])^id.Sequence)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

// prepare makes the record of the batch, if its updates can be carried out on the rows as they are now.
func (b *batch) prepare(ctx context.Context) (*record, error) {
	parts, err := b.parts()
	if err != nil {
		return nil, err
	}
	r := &record{id: b.c.cluster.nextBatch(), parts: make([]*command.Conditional, len(parts))}
	err = inParallel(b.c.sched, partsAtOnce, len(parts), func(i int) error {
		u := parts[i].Updates
		if u == nil {
			r.parts[i] = &command.Conditional{Mutation: *parts[i].Mutation}
			return nil
		}
		r.parts[i] = u
		e := b.errand()
		found, err := e.find(ctx, u)
		if err == nil {
			_, err = command.Resolve(nil, u, found, row.Unstamped)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	// The stamp comes after the reads, so that it is above all that they have seen.
	r.stamp, err = b.stamp(ctx, parts)
	r.issued = r.stamp
	return r, err
}

// stamp is above what the participants have given.
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
		e := b.errand()
		m := of[i]
		return e.run(ctx, "Asking for the last stamp of", locator(m),
			func(ctx context.Context, t *target, p *topology.Partition) (err error) {
				stamps[i], err = t.member.Last(ctx, partition.ExtentOf(p), m.Principal)
				return err
			})
	})
	stamp := b.c.opts.Now().UnixMicro()
	for _, s := range stamps {
		stamp = max(stamp, s+1)
	}
	return stamp, err
}

func locator(m *command.Mutation) func(*view) *topology.Partition {
	return func(v *view) *topology.Partition { return v.snapshot.Locate(m.Table, m.Token, m.Key) }
}

// put writes a mutation with fixed stamps, as often as need be. It has no id: an id that nobody remembers any more
// would be refused, though writing it again changes nothing.
func (e *errand) put(ctx context.Context, what string, m *command.Mutation) error {
	encoded := command.AppendMutation(nil, m)
	return e.run(ctx, what, locator(m), func(ctx context.Context, t *target, p *topology.Partition) error {
		fresh := new(command.Mutation)
		if err := command.DecodeMutation(fresh, bytes.Clone(encoded)); err != nil {
			return err
		}
		fresh.Epoch = p.Epoch
		done := &ending{told: make(chan struct{}), target: *t}
		if err := t.member.Write(ctx, fresh, done); err != nil {
			return err
		}
		_, err := done.wait(ctx)
		return err
	})
}

// removeGrace is how long Close waits for the records of batches that are done to be removed. One that stays is written
// again later, over what may have been deleted for good since, by a TRUNCATE for instance.
const removeGrace = 500 * time.Millisecond

// removeBatch removes a record.
func (c *Coordinator) removeBatch(tr *trace.Trace, r *record) error {
	ctx, cancel := c.sched.WithTimeout(trace.With(context.WithoutCancel(c.tasks.ctx), tr), c.opts.WriteTimeout)
	defer cancel()
	defer c.sched.AfterDone(c.tasks.ctx, func() { c.sched.AfterFunc(removeGrace, cancel) })()
	e := c.errand(dberr.Quorum, c.opts.WriteTimeout)
	m := c.cluster.Batches.Remove(r.id, r.stamp+1)
	return e.put(ctx, "Removing the record of a batch from", &m)
}
