// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/sched"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/partition"
	"github.com/ilion-db/ilion/internal/route/coordinator"
	"github.com/ilion-db/ilion/test/sim/simenv"
)

// A transaction reads some rows of a logical partition one by one or as a slice, and then writes other rows of the
// same logical partition. All writes of a transaction have the same value, and each value is used once. The workload
// also contains blind writes of several rows, and reads of all rows. All operations must form one sequence of atomic
// operations, each at a point between its call and its response. This property is stronger than snapshot isolation. It
// excludes write skew, partially applied transactions, and transactions that are applied twice.

// transacted holds the keys. transactedRows is the number of rows of each key.
var transacted = []string{"t0", "t1"}

const transactedRows = 3

// txn is a transaction, a blind write without reads, or a read outside a transaction.
type txn struct {
	client int
	key    string
	// reads and writes are sets of rows with one bit per row. slice is set if the rows are read in one call.
	reads, writes uint8
	slice         bool
	// outside is set if the operation is not a transaction.
	outside bool
	// even makes the transaction write only if the first row that it reads has an even value.
	even  bool
	value uint64
	seen  partitionState
	// done is set when the outcome is known.
	done          bool
	called, ended time.Duration
}

func (o *txn) String() string {
	return fmt.Sprintf("client %d %s reads %03b writes %03b of %d, outside %v slice %v even %v: saw %v [%v %v] done %v",
		o.client, o.key, o.reads, o.writes, o.value, o.outside, o.slice, o.even, o.seen, o.called, o.ended, o.done)
}

// partitionState holds the values of a key's rows.
type partitionState [transactedRows]uint64

// startTransactions starts clients of transactions on a node.
func (n *node) startTransactions() {
	w := n.w
	for i := range 2 {
		n.Spawn(func(t *simenv.Task) {
			for t.Sleep(w.Between(time.Millisecond, 80*time.Millisecond)) && !w.finished {
				n.transact(t, w.drawTxn(100+2*n.ID+i))
			}
		})
	}
}

func (w *simulation) drawTxn(client int) *txn {
	set := func() uint8 { return uint8(1 + w.Rand.IntN(1<<transactedRows-1)) }
	o := &txn{client: client, key: transacted[w.Rand.IntN(len(transacted))], value: w.hist.newValue()}
	switch d := w.Rand.IntN(10); {
	case d < 6:
		o.reads, o.writes, o.slice, o.even = set(), set(), w.OneIn(2), w.OneIn(3)
	case d < 7:
		o.reads = set()
	case d < 8:
		o.outside, o.writes = true, set()
	default:
		o.outside, o.reads = true, 1<<transactedRows-1
	}
	return o
}

// transact executes an operation through the node's coordinator and records its outcome.
func (n *node) transact(t *simenv.Task, o *txn) {
	w := n.w
	o.called = w.Now
	w.hist.txns = append(w.hist.txns, o)
	responded := false
	var err error
	var d *command.CASResult
	done := ending(func(decided *command.CASResult, e error) { responded, d, err = true, decided, e })
	write := coordinator.WriteOptions{Level: dberr.Quorum}
	key := []byte(o.key)
	m := command.Mutation{Table: rowsTable, Token: token.Hash(key), Key: key}
	switch {
	case o.outside && o.writes == 0:
		v := &stateViewer{}
		err = n.coord.Read(context.Background(), &command.Read{Table: rowsTable, Level: dberr.Quorum,
			Now: n.Wall().Unix(), Token: m.Token, Key: key}, v)
		o.seen, responded = v.state, true
	case o.outside:
		m.Ops = o.changes()
		n.coord.Write(context.Background(), []command.Mutation{m}, write, done)
	default:
		n.coord.ConditionalWrite(context.Background(), &command.Conditional{Mutation: m, Serial: dberr.Serial,
			Now: n.peers.Wall().Unix(), Program: o.program()}, write, done)
	}
	if e := t.Wait(func() bool { return responded }, responseTimeout); e != nil && !responded {
		if err = e; !t.Dead() {
			w.Fail("%v has no response: %v", o, err)
		}
	}
	o.ended = w.Now
	o.done = err == nil && !t.Dead()
	switch {
	case o.done && d != nil:
		if len(d.Result) != 8*transactedRows {
			w.Fail("%v has a response of %d bytes", o, len(d.Result))
			return
		}
		for i := range o.seen {
			o.seen[i] = binary.BigEndian.Uint64(d.Result[8*i:])
		}
		w.counts.Transactions++
	case err != nil && !t.Dead() && !o.unknown(err):
		o.reads, o.writes = 0, 0
		if !o.refused(err) {
			w.Fail("%v: %v", o, err)
		}
	}
}

// unknown reports whether, after an error, an operation may have been executed or may still be executed.
func (o *txn) unknown(err error) bool {
	_, late := errors.AsType[*dberr.WriteTimeout](err)
	return o.writes != 0 && (late || errors.Is(err, sched.ErrEnded))
}

// refused reports whether an error is an expected rejection of the operation.
func (o *txn) refused(err error) bool {
	_, unavailable := errors.AsType[*dberr.Unavailable](err)
	_, overloaded := errors.AsType[*dberr.Overloaded](err)
	_, late := errors.AsType[*dberr.WriteTimeout](err)
	return unavailable || overloaded || late || o.outside || errors.Is(err, sched.ErrEnded)
}

// changes returns the write operations of the transaction.
func (o *txn) changes() (ops []command.Op) {
	for i := range transactedRows {
		if o.writes&(1<<i) != 0 {
			var b row.Builder
			b.Reset(row.Unstamped)
			b.Cell(column, nil, bytesOf(o.value), 0, row.NoExpiry)
			ops = append(ops, command.Op{Clustering: []byte{'a' + byte(i)}, Operand: b.Append(nil)})
		}
	}
	return ops
}

// program returns the encoded program that is sent to the leader.
func (o *txn) program() []byte {
	flags := byte(0)
	if o.slice {
		flags |= 1
	}
	if o.even {
		flags |= 2
	}
	return append([]byte{o.reads, o.writes, flags}, bytesOf(o.value)...)
}

// writesOn reports whether an operation that reads state s writes.
func (o *txn) writesOn(s *partitionState) bool {
	if o.even {
		for i := range s {
			if o.reads&(1<<i) != 0 {
				return s[i]%2 == 0
			}
		}
	}
	return true
}

// transactions implements partition.Programs for a node.
type transactions struct{ n *node }

// Program implements partition.Programs.
func (p transactions) Program(_ context.Context, c *command.Conditional) (partition.Program, error) {
	b := c.Program
	o := &txn{key: string(c.Mutation.Key), reads: b[0], writes: b[1], slice: b[2]&1 != 0, even: b[2]&2 != 0,
		value: binary.BigEndian.Uint64(b[3:])}
	return &transactionRun{n: p.n, o: o, c: c}, nil
}

type transactionRun struct {
	n *node
	o *txn
	c *command.Conditional
}

// Run implements partition.Program. Delays between the steps simulate a slow node.
func (r *transactionRun) Run(ctx context.Context, t *partition.Txn) ([]byte, error) {
	m, w := &r.c.Mutation, r.n.w
	v := &stateViewer{}
	q := func(slices ...command.Slice) error {
		if w.OneIn(4) {
			if err := r.n.Scheduler().Sleep(ctx, w.Between(0, 60*time.Millisecond)); err != nil {
				return err
			}
		}
		return t.Read(ctx, &command.Read{Table: m.Table, Token: m.Token, Key: m.Key, Now: r.c.Now, Slices: slices}, v)
	}
	if r.o.slice {
		if err := q(); err != nil {
			return nil, err
		}
	}
	for i := range transactedRows {
		if !r.o.slice && r.o.reads&(1<<i) != 0 {
			at := []byte{'a' + byte(i)}
			if err := q(command.Slice{Start: at, End: append(at[:1:1], 0)}); err != nil {
				return nil, err
			}
		}
	}
	if r.o.writesOn(&v.state) && r.o.writes != 0 {
		changed := *m
		changed.Ops = r.o.changes()
		if err := t.Stage(ctx, &command.Conditional{Mutation: changed}); err != nil {
			return nil, err
		}
	}
	var out []byte
	for _, v := range v.state {
		out = append(out, bytesOf(v)...)
	}
	return out, nil
}

// stateViewer collects the rows of a read.
type stateViewer struct{ state partitionState }

// Partition implements command.Visitor.
func (v *stateViewer) Partition(token.Token, []byte, *row.Row) (command.Step, error) {
	return command.More, nil
}

// Row implements command.Visitor.
func (v *stateViewer) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if len(clustering) == 1 {
		v.state[clustering[0]-'a'] = number(r)
	}
	return command.More, nil
}

// serial models a logical partition whose operations execute atomically, one at a time.
var serial = porcupine.Model{
	Init: func() any { return partitionState{} },
	Step: func(state, in, _ any) (bool, any) {
		s, o := state.(partitionState), in.(*txn)
		for i := range s {
			if o.done && o.reads&(1<<i) != 0 && o.seen[i] != s[i] {
				return false, s
			}
		}
		if o.writesOn(&s) {
			for i := range s {
				if o.writes&(1<<i) != 0 {
					s[i] = o.value
				}
			}
		}
		return true, s
	},
	DescribeOperation: func(in, _ any) string { return in.(*txn).String() },
}

// lastTransactedReads reads all rows once more after the faults have ended.
func (w *simulation) lastTransactedReads() {
	for _, key := range transacted {
		n := w.nodes[w.Rand.IntN(nodeCount)]
		n.Spawn(func(t *simenv.Task) {
			o := &txn{client: lastReader, key: key, outside: true, reads: 1<<transactedRows - 1}
			if n.transact(t, o); !o.done {
				w.Fail("the final read of %s failed", key)
			}
		})
	}
}

// checkTransactions checks the histories of all keys. checkTransactions returns the number of keys whose check timed
// out.
func (w *simulation) checkTransactions() (unchecked int) {
	seen := map[uint64]bool{}
	for _, o := range w.hist.txns {
		for _, v := range o.seen {
			seen[v] = seen[v] || o.done
		}
	}
	byKey := map[string][]porcupine.Operation{}
	for _, o := range w.hist.txns {
		if o.reads|o.writes == 0 || !o.done && (o.writes == 0 || !seen[o.value]) {
			continue // skip an operation with an unknown outcome whose value was never read
		}
		end := int64(math.MaxInt64)
		if o.done {
			end = int64(o.ended)
		}
		byKey[o.key] = append(byKey[o.key],
			porcupine.Operation{ClientId: o.client, Input: o, Call: int64(o.called), Return: end})
	}
	for _, key := range transacted {
		switch porcupine.CheckOperationsTimeout(serial, byKey[key], 10*time.Second) {
		case porcupine.Illegal:
			w.Fail("key %s is not serializable (%d operations)", key, len(byKey[key]))
			if w.plan.Print != nil {
				for i := range byKey[key] {
					w.plan.Print(byKey[key][i].Input.(*txn).String())
				}
			}
		case porcupine.Unknown:
			unchecked++
		}
	}
	return unchecked
}
