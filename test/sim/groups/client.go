// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/replica/raftgroup"
	"github.com/ilion-db/ilion/test/sim/ledger"
)

type opKind uint8

const (
	opWrite opKind = iota // set a register to a unique value
	opRead                // read a register or a counter
	opAdd                 // add one to a counter
	opBump                // read a number on the leader and propose the next number in the same term
)

func (k opKind) String() string { return [...]string{"write", "read", "add", "bump"}[k] }

// op is a client operation.
type op struct {
	id     int
	client int
	kind   opKind
	group  uint64
	key    string
	value  uint64 // the value that was written or read
	// floor is the highest index of the group that was known when the operation began. at is the index of the state
	// that the operation read.
	floor, at uint64
	called    time.Duration
	ended     time.Duration
	// done is set when the client has a response. An op that received no response has an unknown outcome.
	done bool
	// node is the node on which the operation is in flight, or -1. sent is true once the operation may have reached a
	// log.
	node int
	sent bool
	next func()
}

// A group has the registers r0 and r1, the counter c, and the evaluated number b.
var registers = []string{"r0", "r1"}

const (
	counter = "c"
	bumped  = "b"
)

type client struct {
	w    *simulation
	id   int
	hint [groupCount + 1]int
}

func (w *simulation) startClients() {
	for id := range 8 {
		c := &client{w: w, id: id}
		for g := range c.hint {
			c.hint[g] = w.Rand.IntN(nodeCount)
		}
		w.After(w.Between(0, 300*time.Millisecond), c.next)
	}
	for n := range nodeCount {
		w.After(w.Between(0, 300*time.Millisecond), func() { w.leaseReader(w.nodes[n]) })
		w.After(w.Between(0, 300*time.Millisecond), func() { w.freshReader(w.nodes[n]) })
		w.After(w.Between(0, 300*time.Millisecond), func() { w.asker(w.nodes[n]) })
	}
}

func (c *client) next() {
	w := c.w
	if w.finished {
		return
	}
	if w.lull > w.Now && !w.Calm {
		w.After(w.lull-w.Now, c.next)
		return
	}
	o := &op{client: c.id, group: 1 + w.Rand.Uint64N(groupCount), called: w.Now, node: -1}
	switch d := w.Rand.IntN(10); {
	case d < 3:
		o.kind, o.key, o.value = opWrite, registers[w.Rand.IntN(len(registers))], w.hist.newValue()
	case d < 6:
		o.kind, o.key = opRead, append([]string{counter, bumped}, registers...)[w.Rand.IntN(4)]
	case d < 8:
		o.kind, o.key = opAdd, counter
	default:
		o.kind, o.key = opBump, bumped
	}
	o.next = func() { w.After(w.Between(time.Millisecond, 150*time.Millisecond), c.next) }
	o.floor = w.floor(o.group)
	w.hist.add(o)
	w.After(4*time.Second, func() { w.giveUp(o) })
	c.try(o)
}

// try sends the operation to the node that the client considers the leader.
func (c *client) try(o *op) {
	w := c.w
	if o.next == nil {
		return // the client has abandoned the operation
	}
	n := w.nodes[c.hint[o.group]]
	if n.Host == nil || n.Host.Group(o.group) == nil || !n.submit(o, func() { c.retry(o) }) {
		c.retry(o)
	}
}

// retry sends the operation to another node after an attempt that had no effect.
func (c *client) retry(o *op) {
	o.node, o.sent = -1, false
	c.hint[o.group] = (c.hint[o.group] + 1) % nodeCount
	c.w.After(c.w.Between(2*time.Millisecond, 20*time.Millisecond), func() { c.try(o) })
}

// giveUp abandons an operation after the client's timeout. If the operation was sent, its outcome is unknown.
func (w *simulation) giveUp(o *op) {
	if o.next == nil {
		return
	}
	next := o.next
	o.next = nil
	if o.sent {
		w.counts.Unknown++
	} else {
		w.hist.drop(o)
	}
	next()
}

// acknowledge completes an operation that succeeded.
func (w *simulation) acknowledge(o *op, value uint64) {
	if o.next == nil {
		return // the client has timed out, so the outcome remains unknown
	}
	next := o.next
	o.next, o.done, o.ended, o.value = nil, true, w.Now, value
	w.counts.Acked++
	if o.kind == opRead {
		w.read(o)
	}
	w.Note("client %d: %v %d/%s = %d (node %d)", o.client, o.kind, o.group, o.key, value, o.node)
	next()
}

// waiter implements raftgroup.Waiter with a function.
type waiter func(raftgroup.Outcome)

// Done implements raftgroup.Waiter. The host's loop calls it.
func (f waiter) Done(o raftgroup.Outcome) { f(o) }

// submit starts an operation on this node. submit returns false if the operation cannot start. submit calls refused if
// the operation had no effect.
func (n *node) submit(o *op, refused func()) bool {
	w := n.w
	g := n.Host.Group(o.group)
	o.node = n.ID
	switch o.kind {
	case opRead:
		return n.read(o, g, refused)
	case opWrite:
		return n.propose(o, g, 0, ledger.Set(o.key, binary.BigEndian.AppendUint64(nil, o.value)), refused,
			func(raftgroup.Outcome) uint64 {
				return o.value
			})
	case opAdd:
		return n.propose(o, g, 0, ledger.Add(o.key, 1), refused, func(out raftgroup.Outcome) uint64 {
			sum, _ := out.Result.(uint64)
			return sum
		})
	}
	// opBump evaluates under a latch. It proposes later, but in the term of the evaluation.
	term, ok := g.Evaluating()
	if !ok || w.hist.latched(n, o.group, term) {
		return false
	}
	value, err := n.store.Get(o.group, o.key)
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
		return false
	}
	next := ledger.Number(value) + 1
	release := w.hist.latch(n, o.group, term)
	o.value = next
	thinking := w.Between(0, 20*time.Millisecond)
	if w.OneIn(3) {
		thinking = w.Between(0, 3*time.Second)
	}
	var try func()
	try = func() {
		if o.next == nil {
			release()
			return
		}
		sent := n.propose(o, g, w.plantTerm(term), ledger.Set(o.key, binary.BigEndian.AppendUint64(nil, next)), func() {
			release()
			refused()
		},
			func(raftgroup.Outcome) uint64 { release(); return next })
		switch {
		case sent:
		case w.plan.Bugs.StaleTerm: // wait until the proposal is allowed, in any term
			n.AfterLife(50*time.Millisecond, try)
		default:
			release()
			refused()
		}
	}
	n.AfterLife(thinking, try)
	return true
}

func (n *node) propose(o *op, g *raftgroup.Group, term uint64, command []byte, refused func(),
	value func(raftgroup.Outcome) uint64) bool {
	w, life, id := n.w, n.Life, n.w.hist.attempted()
	p, err := g.NewProposal(term, binary.BigEndian.AppendUint64(command, id), waiter(func(out raftgroup.Outcome) {
		switch {
		case n.Life != life:
		case out.Err == nil:
			if n.leading(o.group) == nil {
				w.counts.Inherited++
			}
			w.attemptDone(id, o.group, out.Index)
			w.acknowledge(o, value(out))
		case errors.Is(out.Err, raftgroup.ErrUnknown) && !w.plan.Bugs.HastyFate:
			value(out)
			w.counts.Lost++
			w.giveUp(o)
		default:
			if errors.Is(out.Err, raftgroup.ErrReplaced) {
				w.counts.Replaced++
			}
			value(out)
			w.attemptFailed(id, out.Err)
			if o.next == nil {
				return
			}
			o.sent = false
			if w.OneIn(2) {
				w.giveUp(o) // rejected permanently, so no client may read the value
				return
			}
			refused()
		}
	}))
	if err != nil {
		return false
	}
	o.sent = true
	n.Inbox.Proposals = append(n.Inbox.Proposals, p)
	n.Kick()
	return true
}

// read serves a read from memory under a lease, or requests a read index. read checks the clock some time after it
// reads the value, because a process may be paused at any point.
func (n *node) read(o *op, g *raftgroup.Group, refused func()) bool {
	w := n.w
	lease := n.lease(g)
	early, err := n.get(o)
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
		return false
	}
	pause := time.Duration(0)
	if w.OneIn(4) {
		pause = w.Between(0, 200*time.Millisecond)
	}
	n.AfterLife(pause, func() {
		if o.next == nil {
			return
		}
		if g.Leased(lease, n.Now()) {
			w.counts.LeaseReads++
			w.leased(n, o.group)
			w.acknowledge(o, early)
			return
		}
		err := n.ask(g, func(out raftgroup.Outcome) {
			switch {
			case o.next == nil:
			case out.Err != nil:
				refused()
			default:
				value, err := n.get(o)
				if err != nil {
					w.Fail("node %d: %v", n.ID, err)
					return
				}
				w.counts.IndexReads++
				w.acknowledge(o, value)
			}
		})
		if err != nil {
			refused()
		}
	})
	return true
}

// get reads a key and records the index of the state.
func (n *node) get(o *op) (uint64, error) {
	value, err := n.store.Get(o.group, o.key)
	m, _, metaErr := n.store.Meta(o.group)
	o.at = m.Applied
	return ledger.Number(value), errors.Join(err, metaErr)
}

// leaseReader runs a client on each node that reads continuously, regardless of the leader. It detects leases that are
// too long.
func (w *simulation) leaseReader(n *node) {
	if w.finished {
		return
	}
	w.After(w.Between(10*time.Millisecond, 60*time.Millisecond), func() { w.leaseReader(n) })
	if n.Host == nil {
		return
	}
	group := 1 + w.Rand.Uint64N(groupCount)
	g := n.Host.Group(group)
	if g == nil {
		return
	}
	lease := n.lease(g)
	o := &op{client: 100 + n.ID, kind: opRead, group: group,
		key: append([]string{counter, bumped}, registers...)[w.Rand.IntN(4)], called: w.Now, floor: w.floor(group),
		node: n.ID}
	o.next = func() {}
	value, err := n.get(o)
	if err != nil {
		w.Fail("node %d: %v", n.ID, err)
		return
	}
	n.AfterLife(w.Between(0, 5*time.Millisecond), func() {
		if g.Leased(lease, n.Now()) {
			w.counts.LeaseReads++
			w.leased(n, o.group)
			w.hist.add(o)
			w.acknowledge(o, value)
		}
	})
}

// asker runs a client on each node that reads from the node's replica. The replica asks the current leader.
func (w *simulation) asker(n *node) {
	if w.finished {
		return
	}
	w.After(w.Between(10*time.Millisecond, 60*time.Millisecond), func() { w.asker(n) })
	if n.Host == nil || n.Paused > w.Now {
		return
	}
	group := 1 + w.Rand.Uint64N(groupCount)
	g := n.Host.Group(group)
	if g == nil || g.Applied() == 0 {
		return
	}
	key := append([]string{counter, bumped}, registers...)[w.Rand.IntN(4)]
	o := &op{client: 300 + n.ID, kind: opRead, group: group, key: key, called: w.Now, floor: w.floor(group), node: n.ID}
	o.next = func() {}
	_ = n.ask(g, func(out raftgroup.Outcome) {
		if out.Err != nil {
			return
		}
		n.AfterLife(w.Between(0, 5*time.Millisecond), func() {
			if n.Host.Group(group) != g {
				return
			}
			value, err := n.get(o)
			if err != nil {
				w.Fail("node %d: %v", n.ID, err)
				return
			}
			if n.leading(group) == nil {
				w.counts.AskedReads++
			}
			w.hist.add(o)
			w.acknowledge(o, value)
		})
	})
}

// ask requests the right to read from this replica.
func (n *node) ask(g *raftgroup.Group, done func(raftgroup.Outcome)) error {
	life, group := n.Life, g.ID()
	if waiting, ok := n.shared[group]; ok && n.w.plan.Bugs.SharedAnswer {
		n.shared[group] = append(waiting, done)
		return nil
	}
	r, err := g.NewRead(waiter(func(out raftgroup.Outcome) {
		if n.Life != life {
			return
		}
		waiting := n.shared[group]
		delete(n.shared, group)
		done(out)
		for _, do := range waiting {
			do(out)
		}
	}))
	if err != nil {
		return err
	}
	if n.w.plan.Bugs.SharedAnswer {
		n.shared[group] = []func(raftgroup.Outcome){}
	}
	n.Inbox.Reads = append(n.Inbox.Reads, r)
	n.Kick()
	return nil
}

// freshReader runs a client on each node that reads from any fresh replica and never asks a leader.
func (w *simulation) freshReader(n *node) {
	if w.finished {
		return
	}
	w.After(w.Between(5*time.Millisecond, 40*time.Millisecond), func() { w.freshReader(n) })
	if n.Host == nil || n.Paused > w.Now || w.plan.Bugs.LongLease {
		return // the bug also changes the clock of freshness checks, but lease readers must find the bug
	}
	group := 1 + w.Rand.Uint64N(groupCount)
	g := n.Host.Group(group)
	if g == nil {
		return
	}
	age := []time.Duration{150 * time.Millisecond, 300 * time.Millisecond, 500 * time.Millisecond,
		time.Second}[w.Rand.IntN(4)]
	w.counts.FreshAsked++
	if !g.Fresh(n.Now(), age) && !w.plan.Bugs.AnyFollower {
		return
	}
	w.counts.FreshReads++
	if n.leading(group) == nil {
		w.counts.FollowerReads++
	}
	o := &op{group: group, key: []string{counter, bumped}[w.Rand.IntN(2)]}
	if _, err := n.get(o); err != nil {
		w.Fail("node %d: %v", n.ID, err)
		return
	}
	w.checkAge(n, group, o.at, age+age/20+time.Millisecond) // allow 5% for clock drift
}

// lastReads reads every key once more after the faults have ended.
func (w *simulation) lastReads() {
	for group := uint64(1); group <= groupCount; group++ {
		for _, key := range append([]string{counter, bumped}, registers...) {
			c := &client{w: w, id: 200}
			o := &op{client: 200, kind: opRead, group: group, key: key, called: w.Now, floor: w.floor(group), node: -1}
			o.next = func() {}
			w.hist.add(o)
			w.hist.last = append(w.hist.last, o)
			c.try(o)
		}
	}
}

// String returns the operation in the form that failure messages use.
func (o *op) String() string {
	return fmt.Sprintf("client %d %v %d [%v %v] done %v", o.client, o.kind, o.value, o.called, o.ended, o.done)
}
