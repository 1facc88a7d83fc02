// SPDX-License-Identifier: Apache-2.0

package coordinator

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/model/trace"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// errand is one command on its way through a cluster: it says which replica to ask next, whether it is worth asking
// again, and what the client is told when it is not. It waits for nothing but in wait.
//
// Who leads is known, the best source first: from the answer that this command has just got (next), from the replica on
// this node, from the last success or LeaderChanged (route). Without any, the replicas are asked in the order of the
// map: each knows the leader, or leads.
type errand struct {
	c        *Coordinator
	level    dberr.Consistency
	who      fairshare.Principal
	began    time.Time
	deadline time.Time
	// booted is the boot clock when a conditional began, 0 for others. The deadline does not move on while the machine
	// is suspended, but what the replicas know of the conditional ages.
	booted time.Duration
	pause  time.Duration
	// memory is that of this node when the errand began, for writes; see known.
	memory uint64
	// any: one replica may answer. nearby: the one here may, having asked the leader. refused: it would not.
	any, nearby, refused bool
	// maybe: an attempt may have done something.
	maybe bool
	// told is what the node teller has told of its memory in refusing an attempt, before any that may have done
	// something.
	told   uint64
	teller topology.NodeID
	// next is the node that the last answer named as the leader; avoid could not answer, and is passed over once.
	next, avoid topology.NodeID
	// silent let an attempt run into its deadline. It is left alone until quietUntil, whoever says that it leads:
	// meanwhile another one may be elected. Then it gets another chance, for it may just be slow.
	silent     topology.NodeID
	quietUntil time.Time
	// cut could not be reached. by is the node that named next: it has heard of next, and may pass on what does not get
	// there from here.
	cut, by topology.NodeID
	turn    int
	// late counts the attempts that ran into their deadline.
	late int
	// at once counts the attempts without a pause in a row.
	atOnce int
	// required is the quorum of the partition asked last.
	required int
	// patience is until when it waits where a partition has spent what it may take, zero if it does not; reads says
	// that somebody waits for it meanwhile. place is its own among those that wait, retryAfter what it was told.
	patience   time.Time
	reads      bool
	place      *place
	retryAfter time.Duration
}

// target is a replica to ask.
type target struct {
	sched *sched.Scheduler
	// cluster and id find the replica on this node, should it have come meanwhile.
	cluster *cluster
	id      topology.PartitionID
	member  Member
	node    topology.NodeID
	// here is the partition's replica on this node, nil if there is none, also if it is not the one to ask.
	here   Local
	remote bool
	// via is the node that passes on what is asked, zero for none.
	via topology.NodeID
	// follower says that the replica here is to ask the leader.
	follower bool
	route    *route
}

func (c *Coordinator) errand(level dberr.Consistency, limit time.Duration) errand {
	now := c.sched.Now()
	e := errand{c: c, level: level, began: now, deadline: now.Add(limit)}
	if wait := c.opts.ThrottledWait; wait > 0 {
		e.patience = now.Add(min(wait, limit*9/10)) // to be refused is not to be late
	}
	return e
}

// endBy moves the deadline forward, if it is later.
func (e *errand) endBy(deadline time.Time) {
	if !deadline.Before(e.deadline) {
		return
	}
	e.deadline = deadline
	if latest := e.began.Add(deadline.Sub(e.began) * 9 / 10); e.patience.After(latest) {
		e.patience = latest
	}
}

// attests says in a write whether an earlier attempt may have been carried out, and what its target had told of its
// memory before that: the replica has to find out that the write was not applied before. So it has to for a first
// attempt at another node, which may get there long after it was sent and after later attempts, to a process or a
// replica that knows nothing of those.
func (e *errand) attests(m *command.Mutation, t *target) {
	m.Retried, m.Sent, m.Known = e.maybe, t.remote && !e.maybe, 0
	switch {
	case t.remote && t.node == e.teller:
		m.Known = e.told
	case t.remote:
		m.Known = e.c.cluster.Memory(t.node, e.began)
	case e.maybe:
		m.Known = e.memory
	}
}

// attempt is when an attempt at another node is given up: a third of all the time there is, so that a process that is
// stopped does not eat it all; what is left when two have run into that.
func (e *errand) attempt() time.Time {
	if e.late >= 2 {
		return e.deadline
	}
	until := e.c.sched.Now().Add(e.deadline.Sub(e.began) / 3)
	if until.After(e.deadline) {
		return e.deadline
	}
	return until
}

// pick chooses the replica to ask, or says why there is none: errNoReplica, which may change, or *dberr.Unavailable.
func (e *errand) pick(v *view, p *topology.Partition) (target, error) {
	cl := e.c.cluster
	t := target{sched: e.c.sched, cluster: cl, id: p.ID, here: cl.here(p.ID), route: v.routes[p.ID]}
	if t.route == nil {
		t.route = new(route) // a partition that is in no table's ring
	}
	avoid := e.avoid
	e.avoid = topology.NodeID{}
	if e.any {
		e.required = 1
		if t.here != nil && !e.refused && t.here.Affords(e.who) {
			return t.at(cl, cl.Node, p)
		}
	}
	if e.goesRound(&t, avoid) {
		return t.around(cl, e, p), nil
	}
	node, known := e.leader(&t, avoid)
	if known && e.nearby && !e.any && !e.refused && t.here != nil && node != cl.Node && t.here.Affords(e.who) {
		t.follower, node = true, cl.Node
	}
	if !e.any || !known {
		required := quorum(p)
		if !e.any {
			e.required = required
		}
		if !known && !e.maybe {
			if alive := cl.alive(p); alive < required {
				if e.any {
					alive = 0 // those that live may not answer alone: no leader vouches for them
				}
				return t, &dberr.Unavailable{Level: e.level, Required: e.required, Alive: alive}
			}
		}
	}
	if !known {
		if node, known = e.inOrder(&t, p, avoid); !known {
			return t, errNoReplica
		}
	}
	return t.at(cl, node, p)
}

// levelAt is the level to ask a replica for. At ONE the replica on this node may answer alone, because it has applied
// what this node has seen acknowledged; one elsewhere does not know of that, and answers as the leader or not at all.
func (e *errand) levelAt(t *target) dberr.Consistency {
	if e.any && t.remote {
		return dberr.Quorum
	}
	return e.level
}

// at makes the replica on a node the one to ask.
func (t target) at(cl *cluster, node topology.NodeID, p *topology.Partition) (target, error) {
	t.node = node
	if node == cl.Node {
		t.member = t.here
		return t, nil
	}
	t.remote, t.member = true, cl.member(t.route, node, p.ID)
	return t, nil
}

// goesRound reports whether next, the leader, is to be asked by way of another node, by: the one that has just named
// it, or the one by which it was reached lately.
func (e *errand) goesRound(t *target, avoid topology.NodeID) bool {
	cl, none := e.c.cluster, topology.NodeID{}
	if cl.alone() || t.here != nil && t.here.Leading() {
		return false
	}
	if r := t.route.round.Load(); r != nil && (e.next == none || e.next == r.node) && r.node != avoid &&
		r.via != avoid {
		if e.c.sched.Now().Before(r.until) && cl.Alive(r.via) {
			e.next, e.by = r.node, r.via
			return true
		}
		t.route.round.CompareAndSwap(r, nil)
	}
	if cl.Via == nil || e.next == none || e.by == none || e.next == cl.Node || e.next == avoid || !cl.Alive(e.by) {
		return false
	}
	return e.next == e.cut || e.next == e.silent || !cl.Alive(e.next)
}

// around makes next the one to ask, by way of by.
func (t target) around(cl *cluster, e *errand, p *topology.Partition) target {
	t.node, t.via, t.remote = e.next, e.by, true
	t.member = cl.Via(t.via, t.node, p.ID)
	e.next, e.by, e.cut = topology.NodeID{}, topology.NodeID{}, topology.NodeID{}
	if !e.any {
		e.required = quorum(p)
	}
	return t
}

// leader is the node that leads as far as is known here, if it can be asked.
func (e *errand) leader(t *target, avoid topology.NodeID) (topology.NodeID, bool) {
	next := e.next
	e.next = topology.NodeID{}
	if e.askable(t, next, avoid) {
		return next, true
	}
	if t.here != nil {
		if t.here.Leading() && e.askable(t, e.c.cluster.Node, avoid) {
			return e.c.cluster.Node, true
		}
		if node, ok := t.here.Leader(); ok && e.askable(t, node, avoid) {
			return node, true
		}
	}
	if node := t.route.leader.Load(); node != nil && e.askable(t, *node, avoid) {
		return *node, true
	}
	return topology.NodeID{}, false
}

// askable reports whether a node can be asked now.
func (e *errand) askable(t *target, node, avoid topology.NodeID) bool {
	cl := e.c.cluster
	switch node {
	case topology.NodeID{}, avoid:
		return false
	case cl.Node:
		return t.here != nil
	case e.silent:
		if e.c.sched.Now().Before(e.quietUntil) {
			return false
		}
	}
	return !cl.alone() && cl.Alive(node)
}

// inOrder goes through the voters of the map, the one that led when it was written first.
func (e *errand) inOrder(t *target, p *topology.Partition, avoid topology.NodeID) (topology.NodeID, bool) {
	if len(p.Sets) == 0 {
		return topology.NodeID{}, false
	}
	set := &p.Sets[0]
	n := len(set.Replicas)
	first := 0
	for i := range set.Replicas {
		if set.Replicas[i].ID == set.Leader {
			first = i
		}
	}
	for range n {
		r := &set.Replicas[(first+e.turn)%n]
		node := r.Node
		e.turn++
		if r.State.Votes() && e.askable(t, node, avoid) {
			return node, true
		}
	}
	return topology.NodeID{}, false
}

// failed takes in how an attempt ended and reports whether to ask again.
func (e *errand) failed(t *target, err error) bool {
	if e.throttled(t, err) {
		return true
	}
	e.leaveQueue()
	why, leader := reasonOf(err)
	if e.maybe && why == final && overloaded(err) {
		why = busy // it would say that nothing was done, which is not known any more
	}
	if why == final {
		return false
	}
	e.c.stats.reasons[why].Add(1)
	switch why {
	case notLeader:
		e.avoid = t.node
		if leader != t.node {
			e.next, e.by = leader, topology.NodeID{}
			if t.remote && t.via == (topology.NodeID{}) {
				e.by = t.node
			}
		}
		t.forget()
	case moved:
		// It was moved away, and who leads is not known there. Nobody else may come to correct the hint.
		if t.remote && errors.Is(err, partition.ErrClosed) {
			e.avoid = t.node
			t.forget()
		}
	case unreachable:
		if e.avoid, e.cut = t.node, t.node; t.via != (topology.NodeID{}) {
			e.avoid = t.via
		}
		t.forget()
	case forgotten:
		e.remembers(t, err)
	case unknown:
		e.maybe = true
		if t.remote && errors.Is(err, context.DeadlineExceeded) {
			e.late++
			e.silent, e.quietUntil = t.node, e.c.sched.Now().Add(e.deadline.Sub(e.began)/3)
		}
		if !underWay(err) {
			e.avoid = t.node
			t.forget()
		}
	}
	if (e.any || t.follower) && t.here != nil && !t.remote {
		e.refused = true
	}
	return true
}

// remembers notes what a node has told of its memory, and has it asked again at once.
func (e *errand) remembers(t *target, err error) {
	f, _ := errors.AsType[*partition.Forgotten](err)
	if e.teller, e.told = t.node, f.Memory; t.via == (topology.NodeID{}) {
		e.next, e.by = t.node, topology.NodeID{}
	}
}

// seen tells the replica on this node which index another one has acknowledged. It may have come since this one was
// asked.
func (t *target) seen(index uint64) {
	if !t.remote {
		return
	}
	here := t.here
	if here == nil {
		here = t.cluster.here(t.id)
	}
	if here != nil {
		here.Seen(index)
	}
}

// forget drops the hint that the node asked leads.
func (t *target) forget() {
	if t.route == nil {
		return
	}
	if old := t.route.leader.Load(); old != nil && *old == t.node {
		t.route.leader.CompareAndSwap(old, nil)
	}
	if t.via != (topology.NodeID{}) {
		t.route.round.Store(nil)
	}
}

// succeeded remembers which replica answered.
func (e *errand) succeeded(t *target) {
	e.leaveQueue()
	if !e.any && !t.follower {
		t.route.learn(t.node)
	}
	if t.via != (topology.NodeID{}) && t.route.round.Load() == nil {
		t.route.round.Store(&round{t.node, t.via, e.c.sched.Now().Add(roundFor)})
	}
}

// atOnceMax bounds how often in a row an errand follows what it is told without a pause: two replicas may name each
// other.
const atOnceMax = 2

// wait returns nil when it is time to ask again: somebody was named, a leader became known, there is a newer map, or a
// pause has passed; and otherwise why there is no use in it any more.
func (e *errand) wait(ctx context.Context, t *target, seen *view) error {
	e.c.stats.retries.Add(1)
	if e.place != nil {
		return e.awaitTurn(ctx)
	}
	left := e.c.sched.Until(e.deadline)
	if e.booted != 0 {
		left = min(left, e.booted+e.deadline.Sub(e.began)-e.c.sched.Boot())
	}
	if left <= 0 {
		return context.DeadlineExceeded
	}
	if (e.next != topology.NodeID{}) && e.atOnce < atOnceMax {
		e.atOnce++
		return ctx.Err()
	}
	e.atOnce = 0
	e.pause = min(max(2*e.pause, retryPauseMin), retryPauseMax)
	var led <-chan struct{}
	if t.route != nil {
		led = t.route.changed()
	}
	return e.c.sched.Sleep(ctx, min(e.pause, left), seen.changed, led)
}

// noteAt adds "<what> physical partition 3 of table ks.t at node <name>" to a trace, without the node where there is
// but one.
func (c *Coordinator) noteAt(tr *trace.Trace, what string, p *topology.Partition, t *target) {
	c.stats.touched.Add(1)
	if t.remote {
		c.stats.forwarded.Add(1)
		if t.here == nil {
			c.stats.astray.Add(1)
		}
	}
	if tr == nil {
		return
	}
	text := what + " physical partition " + strconv.FormatUint(uint64(p.ID), 10) + " of table " +
		c.opts.TableName(p.Table)
	if !c.cluster.alone() {
		text += " at node " + c.cluster.NodeName(t.node)
	}
	if t.via != (topology.NodeID{}) {
		text += " by way of node " + c.cluster.NodeName(t.via)
	}
	tr.Add(text)
}

// noteCharge adds to a trace what a request has cost at a physical partition.
func noteCharge(tr *trace.Trace, at topology.PartitionID, u ru.Units) {
	if tr != nil && u > 0 {
		tr.Add("Charged " + u.String() + " RU at physical partition " + strconv.FormatUint(uint64(at), 10))
	}
}

// run carries an errand out on this goroutine. do waits for its outcome and honours its context.
func (e *errand) run(ctx context.Context, what string, locate func(*view) *topology.Partition,
	do func(context.Context, *target, *topology.Partition) error) error {
	tr := trace.From(ctx)
	defer e.leaveQueue()
	for {
		v := e.c.view.Load()
		p := locate(v)
		if p == nil {
			return ErrUnknownTable
		}
		t, err := e.pick(v, p)
		if err == nil {
			err = e.others(&t)
		}
		if err == nil {
			e.c.noteAt(tr, what, p, &t)
			err = e.once(ctx, &t, p, do)
		}
		if err == nil {
			e.succeeded(&t)
			return nil
		}
		if ctx.Err() != nil || !e.failed(&t, err) || e.wait(ctx, &t, v) != nil {
			return err
		}
	}
}

// once makes an attempt with its own deadline.
func (e *errand) once(ctx context.Context, t *target, p *topology.Partition,
	do func(context.Context, *target, *topology.Partition) error) error {
	until := e.deadline
	if t.remote {
		until = e.attempt()
	}
	ctx, cancel := e.c.sched.WithDeadline(ctx, until)
	defer cancel()
	return do(ctx, t, p)
}
