// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/fairshare"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// Bind binds an INSERT, UPDATE, or DELETE of a transaction. The statements of a transaction share the environment.
func Bind(stmt parser.Statement, env *expr.Env) (*Plan, error) {
	p, err := bind(stmt, env)
	switch {
	case err != nil:
		return nil, err
	case p.conditional:
		return nil, dberr.Invalidf("A statement in a transaction cannot have an IF clause: use IF .. THEN")
	case p.using.timestamp != nil:
		return nil, dberr.Invalidf("A statement in a transaction cannot have USING TIMESTAMP")
	case p.using.timeout != nil:
		return nil, dberr.Invalidf("A statement in a transaction cannot have USING TIMEOUT")
	case p.table.Counter:
		return nil, dberr.Invalidf("Counter columns cannot be accessed within a transaction")
	}
	return p, nil
}

// Key returns the partition key to which the plan writes. It returns an error unless the plan writes to exactly one
// partition key.
func (p *Plan) Key(b *expr.Bindings) ([]byte, error) {
	if p.json != nil {
		var err error
		if b, err = p.json.bindings(b); err != nil {
			return nil, err
		}
	}
	keys, err := p.where.keys(b)
	if err == nil && len(keys) != 1 {
		err = dberr.Invalidf("A statement in a transaction must specify one partition key, not %d", len(keys))
	}
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// Staging collects the changes of a transaction. It does not use pooled memory.
type Staging struct {
	opts    *Options
	changes changes
}

// NewStaging returns an empty Staging. guard holds the guardrails of the client, or nil.
func (e *Executor) NewStaging(guard *guardrail.Check) *Staging {
	s := &Staging{opts: &e.opts}
	if guard.On() && guard.Writes {
		s.changes.guard = guard
	}
	return s
}

// Add adds the changes of a statement. The leader sets the timestamps of the operands.
func (s *Staging) Add(p *Plan, b *expr.Bindings) error { return s.changes.add(p, b, row.Unstamped) }

// Conditional returns the changes for the leader and the warnings for the client. If the transaction changes nothing, c
// is nil.
func (s *Staging) Conditional() (c *command.Conditional, warnings []string, err error) {
	groups := s.changes.groups.all()
	if err := s.changes.checkSizes(s.opts); err != nil || len(groups) == 0 {
		return nil, nil, err
	}
	if len(groups) > 1 {
		return nil, nil, dberr.Serverf("a transaction changes %d logical partitions", len(groups))
	}
	warnings = s.changes.groups.warnLarge(s.opts, nil)
	groups[0].prepare(&s.changes, fairshare.Principal{}, 0)
	return &groups[0].conditional, warnings, nil
}
