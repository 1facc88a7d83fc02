// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

type opKind uint8

const (
	opRead     opKind = iota
	opWrite           // set a register to a unique value with the leader's timestamp
	opDelete          // delete a row with the leader's timestamp
	opTruncate        // remove all rows of a partition
	opSwap            // set a register if it has the last value that the client saw
	opAdd             // add one to a counter
	opStamped         // set a register with the client's timestamp
	opBatch           // set two registers in one logged batch; the history contains one write for each register
	opScan            // read a whole table; the history contains one read for each key
	opFind            // find a value through an index; the history contains one lookup for each key
)

func (k opKind) String() string {
	return [...]string{"read", "write", "delete", "truncate", "swap", "add", "stamped", "batch", "scan", "find"}[k]
}

// op is a client operation.
type op struct {
	id     int
	client int
	kind   opKind
	key    string
	// value is the value that the operation wrote or read. stamp is the timestamp of the value if clients assign
	// timestamps. old is the value that a swap expects. applied reports whether the swap was applied.
	value, old uint64
	stamp      int64
	applied    bool
	// expiry is the expiration time of the written value in seconds, or 0 for none.
	expiry int64
	// blind is set for an addition whose previous value is unknown.
	blind         bool
	called, ended time.Duration
	// index is the index that an opFind uses.
	index uint32
	// parts holds the operations that represent a batch or a scan in the history.
	parts []*op
	// done is set when the client has a response. An op that received no response has an unknown outcome.
	done bool
}

// These are the IDs of the tables. The first letter of a key determines the operations on the key.
const (
	// Keys that start with r are registers with swaps, and keys that start with c are counters. Keys that start with m
	// are registers with client timestamps. Keys that start with x also have conditional writes.
	rowsTable  = keys.FirstTable
	wipedTable = keys.FirstTable + 1 // w: registers with deletions, truncations, and sweeps
	smallTable = keys.FirstTable + 2 // s: registers; d: a counter. The replica set starts with one voter.
	region     = "here"
	setting    = "count"
	column     = 1
)

var (
	registers = []string{"r0", "r1", "r2", "s0"}
	counters  = []string{"c0", "c1", "d0"}
	stamped   = []string{"m0", "m1"}
	mixed     = []string{"x0", "x1"}
	wiped     = []string{"w0", "w1"}
	allKeys   = slices.Concat(registers, counters, stamped, mixed, wiped)
	bigint    = &cqltype.Type{Kind: cqltype.Bigint}
)

// lifetime is the lifetime of rows that expire. It is longer than a run.
const lifetime = 90 * time.Second

// expires reports whether a key's rows expire.
func expires(key string) bool { return key[0] == 'w' }

func tableOf(key string) uint32 {
	switch key[0] {
	case 'w':
		return wipedTable
	case 's', 'd':
		return smallTable
	}
	return rowsTable
}

// client is a connection to a node. It sends one request at a time to the node's coordinator.
type client struct {
	w    *simulation
	n    *node
	t    *simenv.Task
	id   int
	last map[string]uint64
}

func (n *node) startClients() {
	w := n.w
	for i := range 2 {
		n.Spawn(func(t *simenv.Task) {
			c := &client{w: w, n: n, t: t, id: 2*n.ID + i, last: map[string]uint64{}}
			for t.Sleep(w.Between(time.Millisecond, 130*time.Millisecond)) && !w.finished {
				c.execute(c.draw())
			}
		})
	}
	if w.plan.With.Transactions {
		n.startTransactions()
	}
	if w.plan.With.Containers {
		n.startItems()
	}
	if w.plan.With.Feeds {
		n.startFeeds()
	}
	n.Spawn(n.readHere)
	n.startSetter()
	n.startSchema()
	n.startViews()
}

// draw chooses the next operation.
func (c *client) draw() *op {
	w := c.w
	o := &op{client: c.id, called: w.Now}
	one := func(list []string) string { return list[w.Rand.IntN(len(list))] }
	switch d := w.Rand.IntN(28); {
	// requests to other nodes would block the client
	case w.Now < w.until && c.n == w.refused:
		o.kind, o.key = opRead, w.hot
	case w.Now < w.until && w.OneIn(2):
		o.kind, o.key = opWrite, w.hot
	case w.plan.With.Mixed && w.OneIn(8):
		o.key = one(mixed)
		switch w.Rand.IntN(3) {
		case 0:
			o.kind, o.stamp = opStamped,
				w.Time().Add(w.Between(-300*time.Millisecond, 300*time.Millisecond)).UnixMicro()
		case 1:
			o.kind, o.old = opSwap, c.last[o.key]
		default:
			o.kind = opRead
		}
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
		o.stamp = w.Time().UnixMicro()
	case d < 22:
		o.kind, o.key = opDelete, one(wiped)
	case d < 23 && w.OneIn(6):
		o.kind, o.key = opTruncate, wiped[0]
	case d < 24:
		o.kind, o.key = opWrite, one(wiped)
	case d < 27 && !w.plan.With.Batches:
		o.kind, o.key = opWrite, one(registers)
	case d < 27:
		o.kind, o.key = opBatch, one(registers)
		other := one(registers)
		for other == o.key {
			other = one(registers)
		}
		for _, key := range []string{o.key, other} {
			o.parts = append(o.parts, &op{client: c.id, kind: opWrite, key: key, called: w.Now,
				value: w.hist.newValue()})
		}
	default:
		o.kind, o.key = opScan, one(allKeys)
		for _, key := range allKeys {
			if tableOf(key) == tableOf(o.key) {
				o.parts = append(o.parts, &op{client: c.id, kind: opRead, key: key, called: w.Now})
			}
		}
	}
	if off := c.n.Wall().Sub(w.Time()); off > lifetime/3 && expires(o.key) && (o.kind == opRead || o.kind == opScan) {
		// The rows have expired by the clock of this node, so reads at this time are correct only on this node.
		o.kind, o.parts = opWrite, nil
	}
	if expires(o.key) {
		o.expiry = w.Time().Add(lifetime).Unix()
	}
	switch o.kind {
	case opWrite, opSwap, opStamped:
		o.value = w.hist.newValue()
	}
	return o
}

// execute sends an operation to the node's coordinator and records its outcome.
func (c *client) execute(o *op) {
	w, n := c.w, c.n
	for _, part := range o.history() {
		w.hist.add(part)
	}
	here := n.parts.Replica(n.snapshot().Locate(tableOf(o.key), token.Hash([]byte(o.key)), []byte(o.key)).ID)
	a := c.ask(o)
	switch {
	case c.t.Dead():
		w.counts.Unknown++
	case a.err == nil:
		if here != nil && o.kind == opAdd && len(a.decision.Found) > 0 {
			at := seenAt{here.Member(), o.key}
			n.seen[at] = max(n.seen[at], found(a.decision)+1)
		}
		c.finish(o, &a)
	case c.nothingDone(o, a.err):
		for _, part := range o.history() {
			w.hist.drop(part)
		}
	default:
		w.counts.Unknown++
	}
}

// history returns the operations that represent o in the history.
func (o *op) history() []*op {
	if len(o.parts) > 0 {
		return o.parts
	}
	if o.kind == opTruncate {
		// If a coordinator does not know the outcome of a truncation, it truncates again before it responds. It may
		// therefore also remove writes that were made between the two truncations.
		if len(o.parts) == 0 {
			again := *o
			o.parts = []*op{o, &again}
		}
		return o.parts
	}
	return []*op{o}
}

// nothingDone reports whether a client may conclude from an error that an operation had no effect and will have no
// effect.
func (c *client) nothingDone(o *op, err error) bool {
	if o.kind == opRead || o.kind == opScan || o.kind == opFind {
		return true
	}
	var (
		unavailable *dberr.Unavailable
		overloaded  *dberr.Overloaded
		invalid     *dberr.Invalid
		late        *dberr.WriteTimeout
		truncate    *dberr.Truncate
	)
	switch {
	case errors.As(err, &unavailable), errors.As(err, &overloaded), o.stamp != 0 && errors.As(err, &invalid):
		return true
	case errors.As(err, &late), errors.As(err, &truncate), errors.Is(err, sched.ErrEnded):
		return c.w.plan.Bugs.HastyFate
	}
	c.w.Fail("client %d: %v of %s: %v", c.id, o.kind, o.key, err)
	return false
}

// answer is the response of the coordinator.
type answer struct {
	err      error
	decision *command.CASResult
	viewer   viewer
}

// responseTimeout is the response timeout of a client. The coordinator's own deadline is shorter.
const responseTimeout = time.Minute

// ask sends an operation to the coordinator and waits for its response.
func (c *client) ask(o *op) (a answer) {
	n := c.n
	ctx, coord, now := context.Background(), n.coord, n.Wall().Unix()
	responded := false
	done := ending(func(d *command.CASResult, err error) { responded, a.decision, a.err = true, d, err })
	write := coordinator.WriteOptions{Level: dberr.Quorum}
	switch o.kind {
	case opRead, opScan:
		a.viewer = viewer{st: c.t, found: map[string]cell{}}
		a.err = coord.Read(ctx, readOf(o, dberr.Quorum, now), &a.viewer)
		return a
	case opTruncate:
		a.err = coord.Truncate(ctx, tableOf(o.key))
		return a
	case opSwap, opAdd:
		coord.ConditionalWrite(ctx, conditionalOf(o, n.peers.Wall().Unix()), write, done)
	case opBatch:
		write.Atomic, write.Type = true, "BATCH"
		coord.Write(ctx, []command.Mutation{*mutationOf(o.parts[0], now), *mutationOf(o.parts[1], now)}, write, done)
	default:
		coord.Write(ctx, []command.Mutation{*mutationOf(o, now)}, write, done)
	}
	if err := c.t.Wait(func() bool { return responded }, responseTimeout); err != nil && !responded {
		a.err = err
		if !c.t.Dead() {
			c.w.Fail("client %d: %v of %s has no response: %v", c.id, o.kind, o.key, err)
		}
	}
	return a
}

// ending receives the outcome of a write or a conditional write.
type ending func(d *command.CASResult, err error)

// Done implements command.Completion.
func (e ending) Done(o command.Outcome) { e(o.CAS, o.Err) }

// finish completes an operation that succeeded.
func (c *client) finish(o *op, a *answer) {
	w := c.w
	for _, part := range o.history() {
		part.done, part.ended = true, w.Now
		if part.kind == opRead {
			seen := a.viewer.found[part.key]
			part.value, part.stamp = seen.value, seen.stamp
			c.checkStamp(part)
		}
		if part.kind == opRead || part.kind == opWrite || part.kind == opStamped {
			c.last[part.key] = part.value
		}
		if part.kind == opRead {
			w.reached(part)
		}
	}
	switch o.kind {
	case opSwap:
		if o.applied = a.decision.Applied; !o.applied {
			o.old = found(a.decision)
			c.last[o.key] = o.old
		} else {
			c.last[o.key] = o.value
		}
	case opAdd:
		if o.blind = len(a.decision.Found) == 0; !o.blind {
			o.value = found(a.decision) + 1
		}
		w.reached(o)
	case opBatch:
		w.counts.Batches++
	case opScan:
		w.counts.Scans++
	}
	w.counts.Acked++
	w.Note("client %d: %v %s = %d, %v", o.client, o.kind, o.key, o.value, o.applied)
}

// found returns the value in the result of a conditional write.
func found(d *command.CASResult) uint64 {
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

func bytesOf(value uint64) []byte { return binary.BigEndian.AppendUint64(nil, value) }

func mutationOf(o *op, now int64) *command.Mutation {
	var b row.Builder
	switch o.kind {
	case opStamped:
		b.Reset(o.stamp)
	default:
		b.Reset(row.Unstamped)
	}
	switch {
	case o.kind == opDelete:
		b.DeleteRow(now)
	case expires(o.key):
		b.Cell(column, nil, bytesOf(o.value), int32(lifetime/time.Second), o.expiry)
	default:
		b.Cell(column, nil, bytesOf(o.value), 0, row.NoExpiry)
	}
	key := []byte(o.key)
	return &command.Mutation{Table: tableOf(o.key), Token: token.Hash(key), Key: key,
		Ops: []command.Op{{Operand: b.Append(nil)}}}
}

func conditionalOf(o *op, now int64) *command.Conditional {
	if o.kind == opAdd {
		key := []byte(o.key)
		return &command.Conditional{
			Mutation: command.Mutation{Table: tableOf(o.key), Token: token.Hash(key), Key: key},
			Rows:     []command.RowRef{{}}, Now: now,
			Updates: []command.Update{{
				Kind: command.CounterAdd, Column: column, Type: bigint,
				Args: [][]byte{binary.BigEndian.AppendUint64(nil, 1)}, Timestamp: row.Unstamped,
			}},
		}
	}
	var expected []byte
	if o.old != 0 {
		expected = binary.BigEndian.AppendUint64(nil, o.old)
	}
	return &command.Conditional{
		Mutation: *mutationOf(o, 0), Rows: []command.RowRef{{}}, Now: now,
		Conditions: []command.Condition{{Operator: command.Equal, Column: column, Type: bigint,
			Values: [][]byte{expected}}},
	}
}

func readOf(o *op, level dberr.Consistency, now int64) *command.Read {
	k := []byte(o.key)
	r := &command.Read{Table: tableOf(o.key), Level: level, Now: now}
	if o.kind != opScan {
		r.Token, r.Key = token.Hash(k), k
	}
	return r
}

// viewer collects the rows of a read. A process may be paused anywhere, including between the visit of a row and the
// confirmation of the read.
type viewer struct {
	st    *simenv.Task
	key   string
	found map[string]cell
	// column is the column to read, or 0 for the default column.
	column uint32
}

// Partition implements command.Visitor.
func (v *viewer) Partition(_ token.Token, key []byte, _ *row.Row) (command.Step, error) {
	v.key = string(key)
	return command.More, nil
}

// Row implements command.Visitor.
func (v *viewer) Row(_ []byte, r *row.Row) (command.Step, error) {
	seen := cell{}
	if c := r.Cell(cmp.Or(v.column, column)); c != nil && len(c.Value) == 8 {
		seen = cell{value: binary.BigEndian.Uint64(c.Value), stamp: c.Timestamp}
	}
	v.found[v.key] = seen
	if w := v.st.Machine.Environment; w.OneIn(4) && !v.st.Sleep(w.Between(0, 200*time.Millisecond)) {
		return command.Stop, sched.ErrEnded
	}
	return command.More, nil
}

// readHere runs a client that reads counters at consistency level ONE. The replica on the client's node serves the
// read if possible. Otherwise, the node's coordinator sends the read to the leader.
func (n *node) readHere(t *simenv.Task) {
	w := n.w
	for t.Sleep(w.Between(5*time.Millisecond, 40*time.Millisecond)) && !w.finished {
		key := counters[w.Rand.IntN(len(counters))]
		p := n.snapshot().Locate(tableOf(key), token.Hash([]byte(key)), []byte(key))
		r := n.parts.Replica(p.ID)
		if r == nil && !w.plan.Bugs.AnyFollower {
			continue
		}
		w.counts.HereAsked++
		v := &viewer{st: t, found: map[string]cell{}}
		at := w.Now
		var want uint64
		err := error(partition.ErrClosed)
		read := readOf(&op{key: key}, dberr.One, n.Wall().Unix())
		if r != nil {
			want = n.seen[seenAt{r.Member(), key}]
			if w.OneIn(3) {
				err = n.coord.Read(context.Background(), read, v)
			} else {
				err = r.ReadHere(n.Limit(700*time.Millisecond), read, v)
			}
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
		if v.found[key].value < want {
			w.Fail("node %d: local read of %s returned %d; this node has already seen %d", n.ID, key, v.found[key].value, want)
		}
		w.checkAge(n, key, v.found[key].value, at, stale+stale/20+time.Millisecond) // allow 5% for clock drift
	}
}

// stale is the default of StalenessMax in partition.Cluster.
const stale = 500 * time.Millisecond

// sweep makes a leader sweep the partition whose rows are deleted and rewritten.
func (n *node) sweep() {
	w := n.w
	for _, r := range n.parts.Replicas() {
		if r.Table() != wipedTable || !r.Leading() {
			continue
		}
		s := &command.Sweep{Table: wipedTable, Horizon: n.plantPast().Unix() - 1}
		for _, key := range wiped {
			s.Keys = append(s.Keys, keys.AppendRow(nil, wipedTable, token.Hash([]byte(key)), []byte(key), nil))
		}
		if bytes.Compare(s.Keys[0], s.Keys[1]) > 0 {
			s.Keys[0], s.Keys[1] = s.Keys[1], s.Keys[0]
		}
		if err := r.Control().Sweep(s, ending(func(*command.CASResult, error) {})); err == nil {
			w.counts.Sweeps++
		}
	}
}

// lastReader is the ID of the first client that makes the final reads.
const lastReader = 200

// lastReads reads every key once more after the faults have ended.
func (w *simulation) lastReads() {
	w.lastFinds()
	for _, key := range allKeys {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(t *simenv.Task) {
			o := &op{client: lastReader, kind: opRead, key: key, called: w.Now}
			w.hist.last = append(w.hist.last, o)
			c := &client{w: w, n: n, t: t, id: lastReader, last: map[string]uint64{}}
			c.execute(o)
		})
	}
}

// String returns the operation in the form that failure messages use.
func (o *op) String() string {
	return fmt.Sprintf("client %d %v %s %d old %d applied %v stamp %d [%v %v] done %v", o.client, o.kind, o.key,
		o.value, o.old, o.applied, o.stamp, o.called,
		o.ended, o.done)
}
