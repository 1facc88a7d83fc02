// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"context"
	"strings"
	"sync"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/read"
	"github.com/ilion-db/ilion/internal/query/cql/write"
	"github.com/ilion-db/ilion/internal/replica/partition"
)

// Schemas provides the schema of the leader's node.
type Schemas interface {
	// Names resolves tables in the current schema. keyspace is the keyspace of unqualified table names.
	Names(keyspace string) write.Names
	// Await waits for a short time until the table differs from the current schema.
	Await(ctx context.Context, t *schema.Table)
}

// Programs executes transactions on leaders. It is safe for concurrent use.
type Programs struct {
	schemas Schemas
	writes  *write.Executor
	guards  *guardrail.Guards
	uuids   *cqltype.TimeUUIDs

	mu    sync.Mutex
	plans map[planName]*Plan
	size  int // total length of the texts, in bytes
}

type planName struct{ keyspace, text string }

// These constants limit the number of cached plans and the total length of their texts. When a limit is reached, the
// cache is cleared.
const (
	plansMax     = 1000
	plansTextMax = 4 << 20
)

// NewPrograms returns Programs that use the executor writes to apply changes. guards applies to clients that are not
// exempt from guardrails.
func NewPrograms(s Schemas, writes *write.Executor, guards *guardrail.Guards, uuids *cqltype.TimeUUIDs) *Programs {
	return &Programs{schemas: s, writes: writes, guards: guards, uuids: uuids, plans: map[planName]*Plan{}}
}

// Program implements partition.Programs.
func (s *Programs) Program(ctx context.Context, c *command.Conditional) (partition.Program, error) {
	b, err := decodeProgram(c.Program)
	if err != nil {
		return nil, dberr.Serverf("%v", err)
	}
	plan, err := s.plan(&b)
	if err == nil && plan.table.ID == b.table && plan.table.Revision < b.revision {
		s.schemas.Await(ctx, plan.table)
		plan, err = s.plan(&b)
	}
	if err != nil {
		return nil, err
	}
	if plan.table.ID != b.table || plan.table.Revision != b.revision {
		return nil, partition.ErrStaleSchema // ensures (TX2)
	}
	if names := plan.UsedMasks(); len(names) > 0 && !b.clear {
		return nil, dberr.Unauthorizedf("Using the masked columns [%s] of %s in a transaction requires the UNMASK permission",
			strings.Join(names, ", "), plan.table)
	}
	x := &run{programs: s, plan: plan, bind: b.bindings()}
	x.bind.UUIDs = s.uuids
	if b.guarded {
		x.guard = &guardrail.Check{Guards: s.guards}
	}
	x.options = read.Options{Level: dberr.Serial, Now: x.bind.Now.Unix(), Clear: b.clear}
	if err := x.bind.CheckCount(len(plan.variables)); err != nil {
		return nil, err
	}
	return x, nil
}

// plan returns the plan of a program from the cache, or prepares and caches it.
func (s *Programs) plan(b *programBody) (*Plan, error) {
	name := planName{b.keyspace, b.text}
	names := s.schemas.Names(b.keyspace)
	s.mu.Lock()
	p := s.plans[name]
	s.mu.Unlock()
	if p != nil && p.current(names) {
		return p, nil
	}
	stmt, markers, err := parser.Parse(b.text)
	if err != nil {
		return nil, err
	}
	if e, ok := stmt.(*parser.Explain); ok {
		stmt = e.Statement
	}
	t, ok := stmt.(*parser.Transaction)
	if !ok {
		return nil, dberr.Serverf("%v: not a transaction", errMalformed)
	}
	if p, err = Prepare(t, b.text, b.keyspace, names, len(markers)); err != nil {
		return nil, partition.ErrStaleSchema // the client's node has bound the transaction successfully
	}
	if len(b.text) > plansTextMax/plansMax*16 {
		return p, nil // the text is too long for the cache
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plans) >= plansMax || s.size+len(b.text) > plansTextMax {
		clear(s.plans)
		s.size = 0
	}
	if s.plans[name] == nil {
		s.size += len(b.text)
	}
	s.plans[name] = p
	return p, nil
}

// current reports whether a schema contains the table revision and the functions of a plan.
func (p *Plan) current(names write.Names) bool {
	_, t, err := names.Table(parser.QualifiedName{Keyspace: parser.Ident{Name: p.table.Keyspace},
		Name: parser.Ident{Name: p.table.Name}})
	return err == nil && t == p.table && (p.called.None() || p.called.Current(names.Functions().Keyspace))
}
