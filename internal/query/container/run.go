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

// Runner executes the programs of Engine.Run at the leader of the logical partition. Package script implements Runner.
type Runner interface {
	// RunProgram may read and change items through t. If it returns an error, the transaction is rolled back, and the
	// client receives the error. An *Error is passed on unchanged. RunProgram must return soon after its context ends.
	RunProgram(ctx context.Context, t *Transaction, program []byte) (result []byte, err error)
}

// SetRunner sets the runner of programs. Until SetRunner is called, programs are rejected (503).
func (e *Engine) SetRunner(r Runner) { e.runner.Store(&r) }

// BusyPause is the retry delay that the client receives with status 429 if the Runner has no capacity for its program.
const BusyPause = 100 * time.Millisecond

// schemaWait limits the leader's wait for the schema revision of a request.
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
			return nil, &dberr.Overloaded{Message: "The leader of the partition does not execute scripts"}
		}
		r.runner = *runner
	}
	return r, nil
}

// tableName identifies a container's table in the schema.
type tableName struct{ keyspace, table string }

// tableByID finds the table of a container. It first tries the name under which the table was last found, because
// there may be thousands of tables.
func (r *directory) tableByID(id uint32) *schema.Table {
	s := r.schema()
	if n, ok := r.names.Load(id); ok {
		name := n.(tableName)
		if t := s.Table(name.keyspace, name.table); t != nil && t.ID == id {
			return t
		}
		r.names.Delete(id)
	}
	t := s.TableByID(id)
	if t != nil {
		if r.nameCount.Add(1) > definitionsMax {
			r.names.Clear()
			r.nameCount.Store(1)
		}
		r.names.Store(id, tableName{t.Keyspace, t.Name})
	}
	return t
}

// run is an execution of a request at the leader. run implements partition.Program.
type run struct {
	request
	t      *Transaction
	runner Runner
	answer answer
}

// Run implements partition.Program.
func (r *run) Run(ctx context.Context, t *partition.Txn) ([]byte, error) {
	r.t.txn = t
	r.answer.failed = -1
	var err error
	if r.runner != nil {
		err = r.runProgram(ctx)
	} else {
		err = r.runOps(ctx, responseBytesMax)
	}
	if err == nil && r.answer.failed < 0 {
		err = r.t.stage(ctx)
	}
	if err != nil {
		return nil, err
	}
	return r.answer.append(nil), nil
}

// responseBytesMax is the maximum size of the bodies in a response, as in Cosmos DB. It is sufficient for an item and
// the changes that a trigger makes to it.
const responseBytesMax = 4 << 20

// ResultBytesMax implements partition.Large.
func (r *run) ResultBytesMax() int { return responseBytesMax + OperationsMax*resultSlack }

// Brief implements partition.Large. Brief returns the answer without bodies. If a repeated request needs the bodies,
// they are read again. A body is returned only if its item has not changed.
func (r *run) Brief() []byte {
	a := r.answer
	a.of = slices.Clone(a.of)
	for i := range a.of {
		a.of[i].stored.body = nil
	}
	return a.append(nil)
}

// resultSlack is the size of an answer per operation, excluding bodies.
const resultSlack = 512

// runOps executes the operations until one fails.
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
				"the operations return exceed %d bytes. No operation was executed. Read fewer items per request.", responseBytesMax))
		}
		r.answer.of = append(r.answer.of, o)
		if o.status >= 400 {
			r.answer.failed = i
			return nil
		}
	}
	return nil
}

// runProgram calls the runner. If the runner returns an *Error, it is reported to the client and the transaction is
// rolled back.
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

// Run executes a Runner's program at the leader of a logical partition in one transaction. Run returns the result of
// the program, which is limited to 256 KiB.
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

// newest returns the current version of a container.
func (r *directory) newest(c *Container) (*Container, error) {
	if t := r.table(c); t != nil && t != c.table {
		return r.again(c)
	} else if t == nil {
		return nil, &Error{Status: 404, SubStatus: SubOwnerMissing, Code: codes[404],
			Message: "Owner resource does not exist: the container was dropped."}
	}
	return c, nil
}

var _ partition.Programs = (*Engine)(nil)
