// SPDX-License-Identifier: Apache-2.0

package container

import (
	"context"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/epk"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Runner runs what Engine.Run was asked to, at the leader of the logical partition: package script is one.
type Runner interface {
	// RunProgram may read and change items by t. If it returns an error nothing is done, and the error is the client's:
	// an *Error as it is. It ends soon after its context.
	RunProgram(ctx context.Context, t *Transaction, program []byte) (result []byte, err error)
}

// SetRunner says who runs programs; before that they are refused (503).
func (e *Engine) SetRunner(r Runner) { e.runner.Store(&r) }

// BusyPause is after how long a client is to ask again whose program a Runner had no room for (429).
const BusyPause = 100 * time.Millisecond

// schemaWait is how long a leader waits for the revision of the schema that a request was made by.
const (
	schemaWait  = time.Second
	schemaPause = 5 * time.Millisecond
)

// Program implements partition.Programs.
func (e *Engine) Program(ctx context.Context, c *command.Conditional) (partition.Program, error) {
	q, err := decodeRequest(c.Program)
	if err != nil {
		return nil, dberr.Serverf("%v", err)
	}
	t := e.tableByID(q.table)
	older := func() bool { return t == nil || t.Revision < q.revision }
	for waited := time.Duration(0); older() && waited < schemaWait; waited += schemaPause {
		if err := e.opts.Sched.Sleep(ctx, schemaPause); err != nil {
			return nil, err
		}
		t = e.tableByID(q.table)
	}
	if t == nil || t.Revision != q.revision || t.Container == nil {
		return nil, partition.ErrStaleSchema
	}
	ks := e.schema().Keyspace(t.Keyspace)
	if ks == nil || ks.Database == nil {
		return nil, partition.ErrStaleSchema
	}
	m := &c.Mutation
	key, err := epk.ParseKey(m.Key, len(t.Container.Paths))
	if err != nil {
		return nil, dberr.Serverf("%v", err)
	}
	r := &run{request: q, t: &Transaction{engine: e, c: e.container(e.database(ks), t), key: key, keyBytes: m.Key,
		token: m.Token, now: q.now, items: map[string]*state{}}}
	if q.program != nil {
		runner := e.runner.Load()
		if runner == nil {
			return nil, &dberr.Overloaded{Message: "The node that leads the partition runs no scripts"}
		}
		r.runner = *runner
	}
	return r, nil
}

// tableName is where a container's table is in the schema.
type tableName struct{ keyspace, table string }

// tableByID finds the table of a container. Where it was found last is looked at first: there may be thousands.
func (e *Engine) tableByID(id uint32) *schema.Table {
	s := e.schema()
	if n, ok := e.names.Load(id); ok {
		name := n.(tableName)
		if t := s.Table(name.keyspace, name.table); t != nil && t.ID == id {
			return t
		}
		e.names.Delete(id)
	}
	t := s.TableByID(id)
	if t != nil {
		if e.nameCount.Add(1) > definitionsMax {
			e.names.Clear()
			e.nameCount.Store(1)
		}
		e.names.Store(id, tableName{t.Keyspace, t.Name})
	}
	return t
}

// run is one run of a request at the leader. It is a partition.Program.
type run struct {
	request
	t      *Transaction
	runner Runner
	answer answer
}

// Run implements partition.Program.
func (r *run) Run(ctx context.Context, t *partition.Txn) ([]byte, error) {
	return r.runOn(ctx, t, responseBytesMax)
}

// responseBytesMax bounds the bodies in the response to a request, as Cosmos DB does. It leaves room for an item and
// what a trigger makes of it.
const responseBytesMax = 4 << 20

// ResultBytesMax implements partition.Large.
func (r *run) ResultBytesMax() int { return responseBytesMax + OperationsMax*resultSlack }

// Brief implements partition.Large: the answer without bodies. If it is needed, they are read again, and told only
// where the item has not changed.
func (r *run) Brief() []byte {
	a := r.answer
	a.of = slices.Clone(a.of)
	for i := range a.of {
		a.of[i].stored.body = nil
	}
	return a.append(nil)
}

// resultSlack is what an answer takes beside bodies, for each operation.
const resultSlack = 512

// runOn is Run on any txn.
func (r *run) runOn(ctx context.Context, t txn, resultMax int) ([]byte, error) {
	r.t.txn = t
	r.answer.failed = -1
	var err error
	if r.runner != nil {
		err = r.runProgram(ctx)
	} else {
		err = r.runOps(ctx, resultMax)
	}
	if err == nil && r.answer.failed < 0 {
		err = r.t.stage(ctx)
	}
	if err != nil {
		return nil, err
	}
	return r.answer.append(nil), nil
}

// runOps carries out the operations, until one fails.
func (r *run) runOps(ctx context.Context, room int) error {
	for i := range r.ops {
		op := &r.ops[i]
		o, err := r.t.do(ctx, op)
		if err != nil {
			return err
		}
		if len(o.message) > resultSlack/2 {
			o.message = o.message[:resultSlack/2]
		}
		sent := op.Kind != Read && op.Kind != Patch || op.Kind != Read && r.noBodies
		if sent {
			o.stored.body = nil
		}
		if room -= len(o.stored.body); room < 0 {
			o = outcome{id: o.id, charge: o.charge}.refuse(Errorf(413, 0, "The response is too large: the items that "+
				"the operations return exceed %d bytes. Nothing was done. Read fewer items at once.", responseBytesMax))
		}
		r.answer.of = append(r.answer.of, o)
		if o.status >= 400 {
			r.answer.failed = i
			return nil
		}
	}
	return nil
}

// runProgram has the runner run its program. An error of its own is told as one, and nothing is done.
func (r *run) runProgram(ctx context.Context) error {
	result, err := r.runner.RunProgram(ctx, r.t, r.program)
	if r.t.fatal != nil {
		return r.t.fatal
	}
	if err == nil {
		r.answer.result = result
		return nil
	}
	e := refused(err)
	r.answer.failed = 0
	r.answer.of = []outcome{outcome{}.refuse(e)}
	return nil
}

// Run sends a program of a Runner to the leader of a logical partition, where it is one transaction, and returns what
// it returned. Results are at most 256 KiB.
func (e *Engine) Run(ctx context.Context, c *Container, key epk.Key, program []byte, o RequestOptions) ([]byte, Where,
	error) {
	if bad := e.usable(c, key); bad != nil {
		return nil, Where{}, bad
	}
	a, where, err := e.decide(ctx, c, key, &request{program: append([]byte{}, program...)}, o)
	if err != nil {
		return nil, where, err
	}
	if a.failed >= 0 && len(a.of) > 0 {
		bad := Errorf(a.of[0].status, a.of[0].sub, "%s", a.of[0].message)
		if bad.Charge = where.Charge; bad.Status == 429 {
			bad.RetryAfter = BusyPause
		}
		return nil, where, bad
	}
	return a.result, where, nil
}

// revision looks a container up again, if it has changed.
func (e *Engine) newest(c *Container) (*Container, error) {
	if t := e.table(c); t != nil && t != c.table {
		return e.again(c)
	} else if t == nil {
		return nil, &Error{Status: 404, SubStatus: SubOwnerMissing, Code: codes[404],
			Message: "Owner resource does not exist: the container was dropped."}
	}
	return c, nil
}

var _ partition.Programs = (*Engine)(nil)
