// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/test/sim/world"
)

type opKind uint8

const (
	opRead     opKind = iota
	opWrite           // set a register to a value never used before, with the leader's stamp
	opDelete          // delete a row, with the leader's stamp
	opTruncate        // remove all rows of a partition
	opSwap            // set a register, if it has the value last seen
	opAdd             // add one to a counter
	opStamped         // set a register with the client's stamp
)

func (k opKind) String() string {
	return [...]string{"read", "write", "delete", "truncate", "swap", "add", "stamped"}[k]
}

// op is one operation of a client.
type op struct {
	id     int
	client int
	kind   opKind
	key    string
	// value is written, or seen; stamp goes with it where clients stamp. old is what a swap expects; applied how it ended.
	value, old uint64
	stamp      int64
	applied    bool
	// blind is set if what was there before is not known, to an addition.
	blind         bool
	called, ended time.Duration
	// done is set when the client has an answer; an op without one has an unknown outcome.
	done bool
}

// The tables, and what their keys are for: the first letter says it.
const (
	rowsTable  = keys.FirstTable     // r: registers and swaps, c: counters, m: registers that clients stamp
	wipedTable = keys.FirstTable + 1 // w: registers that are deleted and truncated, and swept
	smallTable = keys.FirstTable + 2 // s: registers, d: a counter; its set begins with one voter
	region     = "here"
	setting    = "count"
	column     = 1
)

var (
	registers = []string{"r0", "r1", "r2", "s0"}
	counters  = []string{"c0", "c1", "d0"}
	stamped   = []string{"m0", "m1"}
	wiped     = []string{"w0", "w1"}
	allKeys   = append(append(append(append([]string{}, registers...), counters...), stamped...), wiped...)
	bigint    = &cqltype.Type{Kind: cqltype.Bigint}
)

func tableOf(key string) uint32 {
	switch key[0] {
	case 'w':
		return wipedTable
	case 's', 'd':
		return smallTable
	}
	return rowsTable
}

// client is a coordinator's side of one connection: it is part of a node.
type client struct {
	w    *simulation
	n    *node
	t    *world.Task
	id   int
	last map[string]uint64
}

func (n *node) startClients() {
	w := n.w
	for i := range 2 {
		n.Spawn(func(t *world.Task) {
			c := &client{w: w, n: n, t: t, id: 2*n.ID + i, last: map[string]uint64{}}
			for t.Sleep(w.Between(time.Millisecond, 130*time.Millisecond)) && !w.finished {
				c.carryOut(c.draw())
			}
		})
	}
	n.Spawn(n.readHere)
	n.startSetter()
}

// draw chooses what to do.
func (c *client) draw() *op {
	w := c.w
	o := &op{client: c.id, called: w.Now}
	one := func(list []string) string { return list[w.Rand.IntN(len(list))] }
	switch d := w.Rand.IntN(24); {
	case d < 7:
		o.kind, o.key = opRead, one(allKeys)
	case d < 11:
		o.kind, o.key = opWrite, one(registers)
	case d < 14:
		o.kind, o.key, o.old = opSwap, one(registers), 0
		o.old = c.last[o.key]
	case d < 18:
		o.kind, o.key = opAdd, one(counters)
	case d < 21:
		o.kind, o.key = opStamped, one(stamped)
		o.stamp = c.n.Wall().UnixMicro()*16 + int64(c.id)
	case d < 22:
		o.kind, o.key = opDelete, one(wiped)
	case d < 23 && w.OneIn(6):
		o.kind, o.key = opTruncate, wiped[0]
	default:
		o.kind, o.key = opWrite, one(wiped)
	}
	if o.kind != opRead && o.kind != opAdd && o.kind != opDelete && o.kind != opTruncate {
		o.value = w.hist.newValue()
	}
	return o
}

// patient is how long a client tries, attempt how long it waits for one answer.
const (
	patient = 4 * time.Second
	attempt = 700 * time.Millisecond
)

// answer is what a replica says.
type answer struct {
	err      error
	decision *command.Decision
	index    uint64
	value    uint64
	stamp    int64
	// nowhere says that there is no such replica.
	nowhere bool
}

// carryOut does an operation by the rules of the coordinator: the same id with every attempt, and how long ago the first was that may have
// been carried out.
func (c *client) carryOut(o *op) {
	w, n := c.w, c.n
	w.hist.add(o)
	id := command.DedupeID{Coordinator: n.self(), Sequence: w.hist.newValue()}
	began, maybe := n.Now(), false
	for {
		if w.Now-o.called > patient || w.finished && w.Now-o.called > time.Second && o.client < lastReader {
			break
		}
		p := n.snapshot().Locate(tableOf(o.key), token.Hash([]byte(o.key)), []byte(o.key))
		to := w.pick(n, p.ID)
		if to == nil || to.Host == nil {
			delete(n.hints, p.ID)
			if !c.t.Sleep(w.Between(5*time.Millisecond, 60*time.Millisecond)) {
				return
			}
			continue
		}
		retried := uint32(0)
		if maybe {
			retried = uint32(max(1, (n.Now()-began)/1_000_000))
		}
		a, ok := c.ask(to, o, p, w.plantID(o, id, maybe), retried)
		switch {
		case c.t.Dead():
			return
		case ok && a.err == nil && !a.nowhere:
			if here := n.parts.Replica(p.ID); here != nil && to != n && a.index != 0 {
				here.Seen(a.index)
				n.sawIndex(here, o, &a)
			}
			c.finish(o, &a)
			return
		}
		if c.failed(o, p.ID, ok, &a, &maybe) {
			break
		}
		if !c.t.Sleep(w.Between(2*time.Millisecond, 25*time.Millisecond)) {
			return
		}
	}
	if maybe {
		w.counts.Unknown++
	} else {
		w.hist.drop(o) // nothing was done, and will be
	}
}

// failed judges an attempt that did not succeed; it reports whether the client gives up.
func (c *client) failed(o *op, id topology.PartitionID, answered bool, a *answer, maybe *bool) (giveUp bool) {
	w, n := c.w, c.n
	var not *partition.NotLeader
	var latch *partition.LatchTimeout
	var busy *dberr.Overloaded
	var wrong *partition.WrongRange
	switch err := a.err; {
	case !answered:
		*maybe = true
		delete(n.hints, id)
		if w.plan.Bugs.HastyFate && o.kind != opRead {
			*maybe = false
			return true
		}
	case a.nowhere, errors.Is(err, partition.ErrClosed):
		delete(n.hints, id)
	case errors.As(err, &not):
		n.hints[id] = not.Leader
	case errors.Is(err, partition.ErrUncertain):
		w.counts.Lost++
		*maybe = !w.plan.Bugs.HastyFate
		if w.plan.Bugs.HastyFate {
			return true
		}
	case errors.Is(err, partition.ErrUnderWay):
		w.counts.UnderWay++
		*maybe = true
	case errors.As(err, &latch), errors.As(err, &busy), errors.Is(err, partition.ErrUnconfirmed), errors.As(err, &wrong),
		errors.Is(err, context.DeadlineExceeded) && o.kind == opRead:
	case errors.Is(err, sched.ErrEnded):
		*maybe = true
	default:
		w.Fail("client %d: %v of %s: %v", c.id, o.kind, o.key, err)
		return true
	}
	if o.kind == opRead {
		*maybe = false
		return false
	}
	if *maybe && o.kind == opTruncate {
		return true // it has no id: twice is not once
	}
	return !*maybe && w.OneIn(5) // for good: it must not be seen
}

// finish ends an operation well.
func (c *client) finish(o *op, a *answer) {
	w := c.w
	o.done, o.ended = true, w.Now
	switch o.kind {
	case opRead:
		o.value, o.stamp = a.value, a.stamp
	case opSwap:
		o.applied = a.decision.Applied
		if !o.applied {
			o.old = found(a.decision)
		} else {
			c.last[o.key] = o.value
		}
	case opAdd:
		if o.blind = len(a.decision.Found) == 0; !o.blind {
			o.value = found(a.decision) + 1
		}
	}
	if o.kind == opRead || o.kind == opWrite {
		c.last[o.key] = o.value
	} else if o.kind == opSwap && !o.applied {
		c.last[o.key] = o.old
	}
	w.counts.Acked++
	w.reached(o)
	w.Note("client %d: %v %s = %d, %v", o.client, o.kind, o.key, o.value, o.applied)
}

// found is the value that a decision shows.
func found(d *command.Decision) uint64 {
	if len(d.Found) == 0 || d.Found[0] == nil {
		return 0
	}
	return number(d.Found[0])
}

func number(r *row.Row) uint64 {
	if cell := r.Cell(column); cell != nil && len(cell.Value) == 8 {
		return binary.BigEndian.Uint64(cell.Value)
	}
	return 0
}

// ask makes one attempt at a node and waits for its answer.
func (c *client) ask(to *node, o *op, p *topology.Partition, id command.DedupeID, retried uint32) (a answer, ok bool) {
	w := c.w
	w.ask(c.n, to, func(st *world.Task, reply func(func())) {
		tell := func(got answer) { reply(func() { a, ok = got, true }) }
		r := to.parts.Replica(p.ID)
		if r == nil {
			tell(answer{nowhere: true})
			return
		}
		ctx := to.Limit(attempt)
		ended := &ending{tell: tell}
		var err error
		switch o.kind {
		case opRead:
			v := &viewer{st: st}
			err = r.Read(ctx, readOf(o.key, dberr.Quorum, to.Wall().Unix()), v)
			if err == nil {
				tell(answer{value: v.value, stamp: v.stamp})
			}
		case opTruncate:
			err = r.Truncate(ctx, nil, ended)
		case opSwap, opAdd:
			err = r.Decide(ctx, conditionalOf(o, p, id, retried), ended)
		default:
			err = r.Write(ctx, mutationOf(o, p, id, retried, to.Wall().Unix()), ended)
		}
		if err != nil {
			tell(answer{err: err})
		}
	})
	_ = c.t.Wait(func() bool { return ok }, attempt+200*time.Millisecond)
	return a, ok
}

// ending is the completion of a write.
type ending struct {
	tell  func(answer)
	index uint64
}

// At, Done and Decided hear how it ended.
func (e *ending) At(index uint64) { e.index = index }

// Done implements command.Completion.
func (e *ending) Done(err error) { e.tell(answer{err: err, index: e.index}) }

// Decided implements command.DecisionCompletion.
func (e *ending) Decided(d *command.Decision, err error) {
	e.tell(answer{err: err, decision: d, index: e.index})
}

func mutationOf(o *op, p *topology.Partition, id command.DedupeID, retried uint32, now int64) *command.Mutation {
	var b row.Builder
	switch o.kind {
	case opStamped:
		b.Reset(o.stamp)
	default:
		b.Reset(row.Unstamped)
	}
	if o.kind == opDelete {
		b.DeleteRow(now)
	} else {
		b.Cell(column, nil, binary.BigEndian.AppendUint64(nil, o.value), 0, row.NoExpiry)
	}
	key := []byte(o.key)
	return &command.Mutation{
		Table: tableOf(o.key), Token: token.Hash(key), Key: key, Ops: []command.Op{{Operand: b.Append(nil)}}, Epoch: p.Epoch, Dedupe: id, Retried: retried,
	}
}

func conditionalOf(o *op, p *topology.Partition, id command.DedupeID, retried uint32) *command.Conditional {
	if o.kind == opAdd {
		key := []byte(o.key)
		return &command.Conditional{
			Mutation: command.Mutation{Table: tableOf(o.key), Token: token.Hash(key), Key: key, Epoch: p.Epoch, Dedupe: id, Retried: retried},
			Rows:     []command.RowRef{{}},
			Updates: []command.Update{{
				Kind: command.CounterAdd, Column: column, Type: bigint, Args: [][]byte{binary.BigEndian.AppendUint64(nil, 1)}, Timestamp: row.Unstamped,
			}},
		}
	}
	var expected []byte
	if o.old != 0 {
		expected = binary.BigEndian.AppendUint64(nil, o.old)
	}
	return &command.Conditional{
		Mutation: *mutationOf(o, p, id, retried, 0), Rows: []command.RowRef{{}},
		Conditions: []command.Condition{{Operator: command.Equal, Column: column, Type: bigint, Values: [][]byte{expected}}},
	}
}

func readOf(key string, level dberr.Consistency, now int64) *command.Read {
	k := []byte(key)
	return &command.Read{Table: tableOf(key), Token: token.Hash(k), Key: k, Level: level, Now: now}
}

// viewer takes what a read passes on. A process may be paused anywhere, also behind the row and before what was read is confirmed.
type viewer struct {
	st    *world.Task
	value uint64
	stamp int64
}

// Partition implements command.Visitor.
func (v *viewer) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

// Row implements command.Visitor.
func (v *viewer) Row(_ []byte, r *row.Row) (command.Step, error) {
	v.value = number(r)
	if cell := r.Cell(column); cell != nil {
		v.stamp = cell.Timestamp
	}
	if w := v.st.Machine.World; w.OneIn(4) && !v.st.Sleep(w.Between(0, 200*time.Millisecond)) {
		return command.Stop, sched.ErrEnded
	}
	return command.More, nil
}

// readHere is a client that reads counters at ONE: at the replica of its node, if that may serve it.
func (n *node) readHere(t *world.Task) {
	w := n.w
	for t.Sleep(w.Between(5*time.Millisecond, 40*time.Millisecond)) && !w.finished {
		key := counters[w.Rand.IntN(len(counters))]
		p := n.snapshot().Locate(tableOf(key), token.Hash([]byte(key)), []byte(key))
		r := n.parts.Replica(p.ID)
		if r == nil && !w.plan.Bugs.AnyFollower {
			continue
		}
		w.counts.HereAsked++
		v := &viewer{st: t}
		at := w.Now
		var want uint64
		err := error(partition.ErrClosed)
		read := readOf(key, dberr.One, n.Wall().Unix())
		if r != nil {
			want = n.seen[seenAt{r.Member(), key}]
			err = r.Read(n.Limit(attempt), read, v)
		}
		if err != nil && w.plan.Bugs.AnyFollower && !t.Dead() {
			err = n.store.Read(context.Background(), read, v)
		}
		if t.Dead() {
			return
		}
		if err != nil {
			continue
		}
		w.counts.HereReads++
		if r == nil || !r.Leading() {
			w.counts.FollowerReads++
		}
		if v.value < want {
			w.Fail("node %d: read %s here: %d; this node has seen %d", n.ID, key, v.value, want)
		}
		w.checkAge(n, key, v.value, at, stale+stale/20+time.Millisecond) // clocks drift
	}
}

// stale is partition.Cluster's default of StalenessMax.
const stale = 500 * time.Millisecond

// sawIndex notes that the node has told its replica of an acknowledged addition.
func (n *node) sawIndex(here *partition.Replica, o *op, a *answer) {
	if o.kind == opAdd && len(a.decision.Found) > 0 {
		at := seenAt{here.Member(), o.key}
		n.seen[at] = max(n.seen[at], found(a.decision)+1)
	}
}

// sweep has a leader sweep the rows that are deleted and rewritten.
func (n *node) sweep() {
	w := n.w
	for _, r := range n.parts.Replicas() {
		if r.Table() != wipedTable || !r.Leading() {
			continue
		}
		s := &command.Sweep{Table: wipedTable, Horizon: n.Wall().Unix() - 1}
		for _, key := range wiped {
			s.Keys = append(s.Keys, keys.AppendRow(nil, wipedTable, token.Hash([]byte(key)), []byte(key), nil))
		}
		if bytes.Compare(s.Keys[0], s.Keys[1]) > 0 {
			s.Keys[0], s.Keys[1] = s.Keys[1], s.Keys[0]
		}
		if err := r.Sweep(s, &ending{tell: func(answer) {}}); err == nil {
			w.counts.Sweeps++
		}
	}
}

// lastReader is the first of the clients that read in the end.
const lastReader = 200

// lastReads reads every key once more when all is calm.
func (w *simulation) lastReads() {
	for _, key := range allKeys {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(t *world.Task) {
			o := &op{client: lastReader, kind: opRead, key: key, called: w.Now}
			w.hist.last = append(w.hist.last, o)
			c := &client{w: w, n: n, t: t, id: lastReader, last: map[string]uint64{}}
			c.carryOut(o)
		})
	}
}

// String shows an operation, for the text of a failure.
func (o *op) String() string {
	return fmt.Sprintf("client %d %v %s %d old %d applied %v stamp %d [%v %v] done %v", o.client, o.kind, o.key, o.value, o.old, o.applied, o.stamp, o.called,
		o.ended, o.done)
}
