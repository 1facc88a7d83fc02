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

// Programs interprets the programs of transactions; see command.Conditional. It must be safe for concurrent use.
type Programs interface {
	// Program prepares a program. It may wait for a schema that has not arrived at this node; no latch is held.
	// ErrStaleSchema is returned to the coordinator; all other errors are returned to the client.
	Program(ctx context.Context, c *command.Conditional) (Program, error)
}

// Program is the program of one transaction.
type Program interface {
	// Run reads and stages changes. If it returns an error, nothing is applied, and the client gets the error. It must
	// return soon after its context has ended, which happens at the time limit.
	Run(ctx context.Context, t *Txn) (result []byte, err error)
}

// LargeResult is a Program whose result may exceed TransactionBounds.ResultBytes.
type LargeResult interface {
	Program
	// ResultBytesMax returns the maximum size of the result.
	ResultBytesMax() int
	// Brief returns, after Run, the result to store next to the rows instead of a result above ResultBytes, for a
	// repeated request.
	Brief() []byte
}

// SetPrograms sets the interpreter of programs. Until then, transactions are rejected.
func (e *extensions) SetPrograms(p Programs) { e.programs.Store(&p) }

// program prepares the program of a transaction. It returns nil for other conditionals.
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

// TransactionBounds holds the limits of one transaction. Fields that are 0 have default values.
type TransactionBounds struct {
	// Time limits the run time of a program, for which other writers of its logical partition wait. The default is 1 s
	// and at most half of the time for which they wait.
	Time time.Duration
	// Rows and Bytes limit the data read; 20,000 rows and 16 MiB of logical bytes by default.
	Rows, Bytes int64
	// ResultBytes limits the result of a program, which is stored next to the rows to be returned again; 256 KiB by
	// default.
	ResultBytes int
	// Changes limits the staged operands; 2,000 rows and deletions by default, with up to entriesPerChange index
	// entries each.
	Changes int
}

// entriesPerChange is the number of index entries that a transaction may write per allowed change.
const entriesPerChange = 50

func (b TransactionBounds) withDefaults() TransactionBounds {
	b.Time = cmp.Or(b.Time, time.Second)
	b.Rows = cmp.Or(b.Rows, 20_000)
	b.Bytes = cmp.Or(b.Bytes, 16<<20)
	b.ResultBytes = cmp.Or(b.ResultBytes, 256<<10)
	b.Changes = cmp.Or(b.Changes, 2000)
	return b
}

// Txn is a running transaction in one logical partition, at its leader. The logical partition is latched: no other
// request writes to it, so the program reads a single state, which is unchanged when its changes are applied.
// Transactions are therefore serializable. They are linearizable because the leader's term is confirmed before a result
// is returned. Reads do not see changes staged by the transaction itself.
//
// A Txn belongs to one goroutine and ends with Program.Run. Once a limit was reached or a read has failed, nothing is
// committed, whether or not the program handles the error.
type Txn struct {
	replica *Replica
	c       *command.Conditional
	// pinned is the stored logical partition.
	pinned *storage.Pinned
	ops    []command.Op
	// log describes how staged changes are logged, or is nil if they are not logged.
	log *command.ChangeLog
	// price is the cost of the reads.
	price       ru.Units
	rows, bytes int64
	// reading is the visitor of the current read.
	reading boundedVisitor
	failed  error
}

// ResultBytesMax returns the maximum size of a result.
func (t *Txn) ResultBytesMax() int { return t.replica.host.opts.Transactions.ResultBytes }

// Read passes the results of q in the logical partition to v. q may read a row, slices, or an index. Errors of v also
// fail the transaction. The price is the price of a read at SERIAL.
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

// Stage adds the changes of c to the transaction. Its updates are resolved on the rows from before the transaction. The
// data that c points to must not change until the transaction has ended.
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

// changes counts the operands requested by a client and their index entries.
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

// checkReadLimit rejects reads above the limits of a transaction, given the rows and bytes of the current read.
func (t *Txn) checkReadLimit(rows, size int64) error {
	b := &t.replica.host.opts.Transactions
	if t.rows+rows > b.Rows || t.bytes+size > b.Bytes {
		return dberr.Invalidf("The transaction reads more than %d rows or %d bytes. It was rolled back", b.Rows,
			b.Bytes)
	}
	return nil
}

// boundedVisitor is the visitor of a transaction's read. It ends the read at the limits.
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

// transact is evaluate for a transaction: it runs its program under the latch.
func (w *conditionalWrite) transact(ctx context.Context, at *storage.Pinned) (v evaluation, err error) {
	r, c, p := w.replica, w.c, w.program
	m := &c.Mutation
	t := &Txn{replica: r, c: c, pinned: at}
	result, err := r.host.runLimited(ctx, func(ctx context.Context) ([]byte,
		error) {
		return r.host.runRecovered(ctx, p, t)
	})
	if t.price == 0 && len(t.ops) == 0 {
		t.price = ru.PointRead // the transaction still had its turn at the leader
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

// runRecovered runs a program and converts a panic to an error. The program comes from a client: a bug that it triggers
// must fail the transaction, but neither stop the node nor leak the resources of the request.
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
