// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
	"github.com/ilion-db/ilion/internal/query/cql/transaction"
	"github.com/ilion-db/ilion/internal/query/cql/write"
)

func (e *Engine) bindTransaction(st *statement, s *parser.Transaction) error {
	names := tableNames{e, e.catalog.Snapshot(), st.keyspace}
	p, err := transaction.Prepare(s, st.text, st.keyspace, names, len(st.markers))
	if err != nil {
		return err
	}
	t := p.Table()
	st.kind, st.transaction, st.tables = KindConditional, p, []*schema.Table{t}
	st.variables, st.pkIndexes = p.Variables(), p.PKIndexes()
	if p.Reads() {
		st.requireSelect(t)
	}
	st.noteMaskedUse(t, p.RestrictedMasks())
	if names := p.UsedMasks(); len(names) > 0 {
		st.maskedUses = append(st.maskedUses, maskedUse{table: t, columns: names, needsUnmask: true})
	}
	if p.Writes() {
		st.required = append(st.required, requiredPermission{access.Modify, access.OfTable(t.Keyspace, t.Name)})
	}
	st.requireFunctions(p.Called())
	st.evaluates = true
	if len(p.Columns()) > 0 {
		st.result, st.stable = NewMetadata(p.Columns()), !e.isAltered(t)
	}
	return nil
}

// Programs returns the programs that execute the transactions of the partitions that this node leads.
func (e *Engine) Programs() *transaction.Programs { return e.programs }

// currentSchema implements transaction.Schemas with the engine's catalog.
type currentSchema struct{ *Engine }

// Names implements transaction.Schemas.
func (p currentSchema) Names(keyspace string) write.Names {
	return tableNames{p.Engine, p.catalog.Snapshot(), keyspace}
}

// Await implements transaction.Schemas.
func (p currentSchema) Await(ctx context.Context, t *schema.Table) {
	p.awaitChange(ctx, []*schema.Table{t})
}
