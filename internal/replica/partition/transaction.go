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

// Programs knows what the programs of transactions mean; see command.Conditional. It is safe for concurrent use.
type Programs interface {
	// Program makes a program ready to run. It may wait, for a schema that has not come to this node yet: no latch is
	// held. Errors are for the client, ErrStaleSchema for its coordinator.
	Program(ctx context.Context, c *command.Conditional) (Program, error)
}

// Program is what one transaction does.
type Program interface {
	// Run reads and stages changes. If it returns an error nothing is done, and the error is the client's. It ends soon
	// after its context, whose end is the bound of time.
	Run(ctx context.Context, t *Txn) (result []byte, err error)
}

// Large is a Program whose result may exceed TransactionBounds.ResultBytes.
type Large interface {
	Program
	// ResultBytesMax bounds the result.
	ResultBytesMax() int
	// Brief returns, after Run, the result to keep beside the rows instead of a result above ResultBytes, for a request
	// that is repeated.
	Brief() []byte
}

// SetPrograms says who knows what programs mean. Before that transactions are refused.
func (h *Host) SetPrograms(p Programs) { h.programs.Store(&p) }

// program makes the program of a transaction ready; nil for any other conditional.
func (h *Host) program(ctx context.Context, c *command.Conditional) (Program, error) {
	if c.Program == nil {
		return nil, nil
	}
	p := h.programs.Load()
	if p == nil {
		return nil, &dberr.Overloaded{Message: "The node that leads the partition is starting: it runs no transactions yet"}
	}
	return (*p).Program(ctx, c)
}

// TransactionBounds are what one transaction may take; fields that are 0 have the defaults.
type TransactionBounds struct {
	// Time bounds the run of a program, which the other writers of its logical partition wait for; 1 s, half of what
	// they wait for at most.
	Time time.Duration
	// Rows and Bytes bound what is read, 20,000 rows of 16 MiB of logical bytes.
	Rows, Bytes int64
	// ResultBytes bounds what a program returns, 256 KiB: it is kept beside the rows, to be told again.
	ResultBytes int
	// Changes bounds the operands that are staged, 2,000 rows and deletions, and entriesPerChange as many index
	// entries.
	Changes int
}

// entriesPerChange is how many index entries a transaction may write for each change that it may make.
const entriesPerChange = 50

func (b TransactionBounds) withDefaults() TransactionBounds {
	b.Time = cmp.Or(b.Time, time.Second)
	b.Rows = cmp.Or(b.Rows, 20_000)
	b.Bytes = cmp.Or(b.Bytes, 16<<20)
	b.ResultBytes = cmp.Or(b.ResultBytes, 256<<10)
	b.Changes = cmp.Or(b.Changes, 2000)
	return b
}

// Txn is a transaction in one logical partition, at its leader, while its program runs. The logical partition is
// latched: nobody else writes there, so all that the program reads, points and slices, is one state, and still is the
// state when its changes are applied. That is serializable, and as the leader's term is confirmed before anything is
// told, linearizable. Reads do not see what the transaction itself has staged.
//
// A Txn belongs to one goroutine and ends with Program.Run. Once a bound was reached, or a read has failed, nothing is
// committed, whatever the program makes of the error.
type Txn struct {
	replica *Replica
	c       *command.Conditional
	// pinned is the logical partition as it is stored.
	pinned *storage.Pinned
	ops    []command.Op
	// log says how what is staged is logged, nil if it is not.
	log *command.ChangeLog
	// price is that of what was read.
	price       ru.Units
	rows, bytes int64
	// reading is the visitor of the read at hand.
	reading bounded
	failed  error
}

// ResultBytesMax is how large a result may be.
func (t *Txn) ResultBytesMax() int { return t.replica.host.opts.Transactions.ResultBytes }

// Read passes what q finds in the logical partition to v: a row, slices, an index entry. Errors of v end the
// transaction, too. The price is that of a read at SERIAL.
func (t *Txn) Read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if t.failed == nil {
		t.failed = t.read(ctx, q, v)
	}
	return t.failed
}

func (t *Txn) read(ctx context.Context, q *command.Read, v command.Visitor) error {
	if err := t.within(q.Table, q.Key); err != nil {
		return err
	}
	r := t.replica
	m := r.host.readers.Get().(*meter)
	t.reading = bounded{v, t, m}
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
	return within(t.c, t.price)
}

// Stage adds the changes of c to the transaction. Its updates are resolved on the rows as they were before the
// transaction. What c points to stays as it is until the transaction has ended.
func (t *Txn) Stage(ctx context.Context, c *command.Conditional) error {
	if t.failed == nil {
		t.failed = t.stage(ctx, c)
	}
	return t.failed
}

func (t *Txn) stage(ctx context.Context, c *command.Conditional) error {
	if err := t.within(c.Mutation.Table, c.Mutation.Key); err != nil {
		return err
	}
	f, price, err := t.replica.find(ctx, c, t.pinned.Read)
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
		return dberr.Invalidf("The transaction changes more than %d rows or %d index entries at once. Nothing was done",
			most, entriesPerChange*most)
	}
	return t.overread(0, 0)
}

// changes counts the operands that a client has asked for, and the index entries that they come with.
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

// within refuses what leaves the logical partition.
func (t *Txn) within(table uint32, key []byte) error {
	m := &t.c.Mutation
	if table != m.Table || !bytes.Equal(key, m.Key) {
		return dberr.Invalidf("A transaction of the logical partition 0x%x of table %d cannot reach 0x%x of table %d",
			m.Key, m.Table, key, table)
	}
	return nil
}

// overread refuses to read more than a transaction may, which so many rows and bytes are under way for.
func (t *Txn) overread(rows, size int64) error {
	b := &t.replica.host.opts.Transactions
	if t.rows+rows > b.Rows || t.bytes+size > b.Bytes {
		return dberr.Invalidf("The transaction reads more than %d rows or %d bytes. Nothing was done", b.Rows, b.Bytes)
	}
	return nil
}

// bounded is the visitor of a transaction's read: it ends the read at the bounds.
type bounded struct {
	command.Visitor
	t *Txn
	m *meter
}

// Partition implements command.Visitor.
func (b *bounded) Partition(tok token.Token, key []byte, static *row.Row) (command.Step, error) {
	if err := b.t.overread(b.m.Rows, b.m.Bytes); err != nil {
		return command.Stop, err
	}
	return b.Visitor.Partition(tok, key, static)
}

// Row implements command.Visitor.
func (b *bounded) Row(clustering []byte, r *row.Row) (command.Step, error) {
	if err := b.t.overread(b.m.Rows, b.m.Bytes); err != nil {
		return command.Stop, err
	}
	return b.Visitor.Row(clustering, r)
}

// transact is evaluate for a transaction: it runs its program under the latch.
func (r *Replica) transact(ctx context.Context, c *command.Conditional, p Program, at *storage.Pinned) (v verdict,
	err error) {
	m := &c.Mutation
	t := &Txn{replica: r, c: c, pinned: at}
	result, err := r.host.limited(ctx, func(ctx context.Context) ([]byte, error) { return r.host.safely(ctx, p, t) })
	if t.price == 0 && len(t.ops) == 0 {
		t.price = ru.PointRead // it had its turn at the leader all the same
	}
	r.hasRead(m.Principal, false, usage.Condition, t.price, t.rows, t.bytes, m.Token, m.Key)
	if t.failed != nil && err == nil {
		err = t.failed
	}
	large, _ := p.(Large)
	most := t.ResultBytesMax()
	if v.brief = result; large != nil && len(result) > most {
		most, v.brief = large.ResultBytesMax(), large.Brief()
	}
	if err == nil && len(result) > most {
		err = dberr.Invalidf("The transaction returns %d bytes, at most %d are allowed. Nothing was done", len(result), most)
	}
	if err != nil {
		return verdict{}, err
	}
	v.above = row.NotDeleted
	v.decision = &command.Decision{Result: result, Charge: int64(t.price)}
	if len(t.ops) > 0 {
		v.write(c, t.ops, m.Dedupe != command.DedupeID{})
		v.log = t.log
		if v.above, err = at.Newest(v.whole); err != nil {
			return v, err
		}
	}
	if c.Dry {
		v.decision.Applied, v.whole = false, nil
		v.decision.Result = binary.AppendUvarint(nil, uint64(v.decision.Charge))
		v.decision.Charge = int64(t.price)
		return v, nil
	}
	return v, within(c, ru.Units(v.decision.Charge))
}

// safely runs a program, and makes an error of a panic. A client sends the program: a defect that it meets must end the
// transaction, and neither the node nor what the request holds on the way.
func (h *Host) safely(ctx context.Context, p Program, t *Txn) (result []byte, err error) {
	defer func() {
		if defect := recover(); defect != nil {
			h.opts.Log.LogAttrs(ctx, slog.LevelError, "defect in a transaction", slog.Any("defect", defect),
				slog.String("stack", string(debug.Stack())))
			result, err = nil, dberr.Serverf("The transaction failed because of a defect: see the log of the node that leads "+
				"the partition. Nothing was done")
		}
	}()
	return p.Run(ctx, t)
}

// TooLongText begins what a client is told of a transaction that has reached TransactionBounds.Time.
const TooLongText = "The transaction took longer than"

// limited runs a program no longer than one may take. A simulation has no time while a program runs.
func (h *Host) limited(ctx context.Context, run func(ctx context.Context) ([]byte, error)) ([]byte, error) {
	if h.drive != nil {
		return run(ctx)
	}
	most := h.opts.Transactions.Time
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	result, err := run(limited)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = dberr.Invalidf("%s %v. Nothing was done", TooLongText, most)
	}
	return result, err
}
