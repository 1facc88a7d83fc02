// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/ru"
	"github.com/ilion-db/ilion/internal/model/token"
	"github.com/ilion-db/ilion/internal/replica/storage"
	"github.com/ilion-db/ilion/internal/replica/usage"
)

// Programs interprets the programs of transactions; see command.Conditional. Implementations must be safe for
// concurrent use.
type Programs interface {
	// Program prepares a program. It may wait for a schema that has not arrived at this node, because no latch is held.
	// ErrStaleSchema is returned to the coordinator, and all other errors are returned to the client.
	Program(ctx context.Context, c *command.Conditional) (Program, error)
}

// Program is the program of one transaction.
type Program interface {
	// Run reads data and stages changes. If Run returns an error, no change is applied, and the client gets the error.
	// Run must return soon after its context has ended. The context ends at the time limit.
	Run(ctx context.Context, t *Txn) (result []byte, err error)
}

// LargeResult is a Program whose result may exceed TransactionBounds.ResultBytes.
type LargeResult interface {
	Program
	// ResultBytesMax returns the maximum size of the result.
	ResultBytesMax() int
	// Brief returns a replacement for a result above ResultBytes. The replacement is stored next to the rows for
	// retries. Brief is called after Run.
	Brief() []byte
}

// SetPrograms sets the interpreter of programs. Before this call, replicas reject transactions.
func (e *extensions) SetPrograms(p Programs) { e.programs.Store(&p) }

// program prepares the program of a transaction. It returns nil if c is not a transaction.
func (e *extensions) program(ctx context.Context, c *command.Conditional) (Program, error) {
	if c.Program == nil {
		return nil, nil
	}
	p := e.programs.Load()
	if p == nil {
		return nil, &dberr.Overloaded{Message: "The leader of the partition is starting and cannot execute " +
			"transactions yet. Retry later"}
	}
	return (*p).Program(ctx, c)
}

// TransactionBounds holds the limits of one transaction. If a field is 0, the default applies.
type TransactionBounds struct {
	// Time is the maximum run time of a program. Other writers of the logical partition wait while the program runs.
	// The default is the minimum of 1 s and half of Options.LatchWait.
	Time time.Duration
	// Rows and Bytes are the maximum numbers of rows and logical bytes to read. The defaults are 20,000 rows and 16
	// MiB.
	Rows, Bytes int64
	// ResultBytes is the maximum size of a program's result, which is stored next to the rows for retries. The default
	// is 256 KiB.
	ResultBytes int
	// Changes is the maximum number of staged operands. The default is 2,000. Index entries have a separate limit of
	// entriesPerChange for each change.
	Changes int
}

// entriesPerChange is the maximum number of index entries of a transaction divided by TransactionBounds.Changes.
const entriesPerChange = 50

func (b TransactionBounds) withDefaults() TransactionBounds {
	b.Time = cmp.Or(b.Time, time.Second)
	b.Rows = cmp.Or(b.Rows, 20_000)
	b.Bytes = cmp.Or(b.Bytes, 16<<20)
	b.ResultBytes = cmp.Or(b.ResultBytes, 256<<10)
	b.Changes = cmp.Or(b.Changes, 2000)
	return b
}

// Txn is a running transaction in one logical partition on the leader. The logical partition is latched, so its data
// does not change between the first read and the application of the transaction's changes. Transactions are therefore
// serializable. They are linearizable because the leader confirms its term before it returns a result. Reads do not see
// staged changes of the transaction.
//
// A Txn is not safe for concurrent use. It must not be used after Program.Run returns. If a limit is reached or a read
// fails, the transaction is not committed, even if the program handles the error.
type Txn struct {
	replica *Replica
	c       *command.Conditional
	// pinned reads the stored logical partition.
	pinned *storage.Pinned
	ops    []command.Op
	// log describes how staged changes are logged. It is nil if changes are not logged.
	log *command.ChangeLog
	// price is the cost of all reads.
	price       ru.Units
	rows, bytes int64
	// reading is the visitor of the current read.
	reading boundedVisitor
	failed  error
}

// ResultBytesMax returns the maximum size of a result.
func (t *Txn) ResultBytesMax() int { return t.replica.host.opts.Transactions.ResultBytes }

// Read passes the results of q in the logical partition to v. q may read a row, slices, or an index. An error of v also
// fails the transaction. The price is the price of a read at SERIAL.
func (t *Txn) Read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if t.failed == nil {
		t.failed = t.read(ctx, q, v)
	}
	return t.failed
}

func (t *Txn) read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if err := t.checkKey(q.Table, q.Key); err != nil {
		return err
	}
	r := t.replica
	m := r.host.readers.Get().(*readMeter)
	t.reading = boundedVisitor{v, t, m}
	m.begin(&t.reading, q)
	defer func() {
		m.begin(nil, nil)
		r.host.readers.Put(m)
	}()
	q.Level = dberr.Serial
	err := staleIndex(t.pinned.Read(ctx, q, m))
	price := m.Price(q)
	t.rows += m.Rows
	t.bytes += m.Bytes
	t.price += price
	if err != nil {
		return err
	}
	ru.Tell(v, price)
	return checkMaxCharge(t.c, t.price)
}

// Stage adds the changes of c to the transaction. It resolves updates on the rows from before the transaction. The
// caller must not modify the data of c until the transaction has ended.
func (t *Txn) Stage(ctx context.Context, c *command.Conditional) error {
	if t.failed == nil {
		t.failed = t.stage(ctx, c)
	}
	return t.failed
}

func (t *Txn) stage(ctx context.Context, c *command.Conditional) error {
	if err := t.checkKey(c.Mutation.Table, c.Mutation.Key); err != nil {
		return err
	}
	f, price, err := findRows(ctx, c, t.pinned.Read)
	if err != nil {
		return err
	}
	t.price += price
	t.rows += f.rows
	t.bytes += f.bytes
	ops, err := command.Resolve(slices.Clip(c.Mutation.Ops), c, f.found, row.Unstamped)
	if err != nil {
		return err
	}
	t.ops = append(t.ops, ops...)
	if c.Log != nil {
		t.log = c.Log
	}
	most := t.replica.host.opts.Transactions.Changes
	if n, entries := changes(t.ops); n > most || entries > entriesPerChange*most {
		return dberr.Invalidf("The transaction changes more than %d rows or %d index entries. It was rolled back",
			most, entriesPerChange*most)
	}
	return t.checkReadLimit(0, 0)
}

// changes returns the number of operands that the client has requested and the number of their index entries.
func changes(ops []command.Op) (n, entries int) {
	for i := range ops {
		switch ops[i].Kind {
		case command.OpChange:
		case command.OpIndex:
			entries++
		default:
			n++
		}
	}
	return n, entries
}

// checkKey rejects access outside of the logical partition.
func (t *Txn) checkKey(table uint32, key []byte) error {
	m := &t.c.Mutation
	if table != m.Table || !bytes.Equal(key, m.Key) {
		return dberr.Invalidf("A transaction of the logical partition 0x%x of table %d cannot reach 0x%x of table %d",
			m.Key, m.Table, key, table)
	}
	return nil
}

// checkReadLimit returns an error if the reads of the transaction exceed its limits. rows and size are the numbers of
// rows and bytes of the current read.
func (t *Txn) checkReadLimit(rows, size int64) error {
	b := &t.replica.host.opts.Transactions
	if t.rows+rows > b.Rows || t.bytes+size > b.Bytes {
		return dberr.Invalidf("The transaction reads more than %d rows or %d bytes. It was rolled back", b.Rows,
			b.Bytes)
	}
	return nil
}

// boundedVisitor is the visitor of a transaction's read. It ends the read at the limits of the transaction.
type boundedVisitor struct {
	command.Visitor
	t *Txn
	m *readMeter
}

// Partition implements command.Visitor.
func (b *boundedVisitor) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if err := b.t.checkReadLimit(b.m.Rows, b.m.Bytes); err != nil {
		return command.Stop, err
	}
	return b.Visitor.Partition(tok, key, static)
}

// Row implements command.Visitor.
func (b *boundedVisitor) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if err := b.t.checkReadLimit(b.m.Rows, b.m.Bytes); err != nil {
		return command.Stop, err
	}
	return b.Visitor.Row(clustering, r)
}

// transact evaluates a transaction. It runs the program under the latch.
func (w *conditionalWrite) transact(ctx context.Context, at *storage.Pinned) (v evaluation, err error) {
	r, c, p := w.replica, w.c, w.program
	m := &c.Mutation
	t := &Txn{replica: r, c: c, pinned: at}
	result, err := r.host.runLimited(ctx, func(ctx context.Context) ([]byte,
		error) {
		return r.host.runRecovered(ctx, p, t)
	})
	if t.price == 0 && len(t.ops) == 0 {
		t.price = ru.PointRead // minimum price, because the transaction has occupied the latch
	}
	r.load.recordRead(m.Principal, false, usage.Condition, t.price, t.rows, t.bytes, m.Token, m.Key)
	if t.failed != nil && err == nil {
		err = t.failed
	}
	large, _ := p.(LargeResult)
	most := t.ResultBytesMax()
	if v.brief = result; large != nil && len(result) > most {
		most, v.brief = large.ResultBytesMax(), large.Brief()
	}
	if err == nil && len(result) > most {
		err = dberr.Invalidf("The transaction returns %d bytes, but only %d are allowed. It was rolled back",
			len(result), most)
	}
	if err != nil {
		return evaluation{}, err
	}
	v.above = row.NotDeleted
	v.cas = &command.CASResult{Result: result, Charge: int64(t.price)}
	if len(t.ops) > 0 {
		v.write(c, t.ops, m.Dedupe != command.DedupeID{})
		v.log = t.log
		if v.above, err = at.Newest(v.whole); err != nil {
			return v, err
		}
	}
	if c.Dry {
		v.cas.Applied, v.whole = false, nil
		v.cas.Result = binary.AppendUvarint(nil, uint64(v.cas.Charge))
		v.cas.Charge = int64(t.price)
		return v, nil
	}
	return v, checkMaxCharge(c, ru.Units(v.cas.Charge))
}

// runRecovered runs a program and converts a panic to an error. A client's program that triggers a bug must fail only
// its transaction. The bug must not stop the node or leak the resources of the request.
func (h *Host) runRecovered(ctx context.Context, p Program, t *Txn) (result []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			h.opts.Log.LogAttrs(ctx, slog.LevelError, "panic in a transaction", slog.Any("panic", panicked),
				slog.String("stack", string(debug.Stack())))
			result, err = nil, dberr.Serverf("The transaction failed because of an internal error. See the log of "+
				"the partition's "+
				"leader. The transaction was rolled back")
		}
	}()
	return p.Run(ctx, t)
}

// TooLongText is the beginning of the error for a transaction that has reached TransactionBounds.Time.
const TooLongText = "The transaction took longer than"

// runLimited runs a program within its time limit. Simulated time does not advance while a program runs.
func (h *Host) runLimited(ctx context.Context, run func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	if h.sim != nil {
		return run(ctx)
	}
	most := h.opts.Transactions.Time
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	result, err := run(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = dberr.Invalidf("%s %v. It was rolled back", TooLongText, most)
	}
	return result, err
}
