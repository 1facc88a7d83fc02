// SPDX-License-Identifier: Apache-2.0

package write

import (
	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/guardrail"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// changes converts plans and their values into changes of logical partitions.
type changes struct {
	arena       arena
	groups      groupSet
	row, header row.Builder

	// conditional reports whether the execution has conditions.
	conditional bool
	// conditionalBatch is true for all statements of a batch with conditions. As in Cassandra, the writes of such a
	// batch override the batch's deletions of ranges and partitions. However, a row deletion overrides writes to the
	// row. In a table without clustering columns, a partition deletion is a row deletion.
	conditionalBatch bool
	// static and regular report whether the statements write static columns and regular columns.
	static, regular bool

	// guard checks values. If no guardrail applies to values, guard is nil.
	guard *guardrail.Check
	stamp stamp // timestamp and TTL of the current statement
	// putRow and putStatic report whether the leader adds list elements to the current row and to the static row. Such
	// an addition may create the row.
	putRow, putStatic bool
	// viewKeyValues holds the current row's values of columns in view keys.
	viewKeyValues []viewKeyValue
	// statement is the index of the current statement in a batch.
	statement int
	now       int64
}

// begin removes all changes but keeps the memory.
func (x *changes) begin(guard *guardrail.Check) {
	x.arena, x.guard, x.statement = x.arena[:0], guard, 0
	x.groups.begin()
	x.conditional, x.conditionalBatch, x.static, x.regular = false, false, false, false
}

// arena holds the keys, the operands, and other data to which the changes refer. The write uses the arena until it is
// complete.
type arena []byte

// keep copies bytes into the arena.
func (a *arena) keep(b []byte) []byte {
	begin := len(*a)
	*a = append(*a, b...)
	return a.tail(begin)
}

// tail returns the bytes that follow the offset begin.
func (a arena) tail(begin int) []byte { return a[begin:len(a):len(a)] }

// path appends the path of an element or map key.
func (a *arena) path(t *cqltype.Type, key []byte) []byte {
	begin := len(*a)
	*a = t.AppendKey(*a, key, false)
	return a.tail(begin)
}

// add converts a plan and its values into changes of logical partitions.
func (x *changes) add(p *Plan, b *expr.Bindings, fallback int64) error {
	var err error
	if x.stamp, err = p.stamp(b, fallback); err != nil {
		return err
	}
	if x.guard != nil {
		if err := x.checkTimestampGuardrail(p, b.Now); err != nil {
			return err
		}
	}
	x.now = x.stamp.at
	x.statement++
	x.conditional = x.conditional || p.conditional
	if p.json != nil {
		if b, err = p.json.bindings(b); err != nil {
			return err
		}
	}
	t := target{stamp: &x.stamp, b: b}
	if !p.where.simple {
		return x.addMany(p, &t)
	}
	begin := len(x.arena)
	if x.arena, err = p.where.appendSimpleKey(x.arena, b); err != nil {
		return err
	}
	key := x.arena.tail(begin)
	begin = len(x.arena)
	if x.arena, err = p.where.appendSimpleClustering(x.arena, p.table, b); err != nil {
		return err
	}
	t.clustering = x.arena.tail(begin)
	t.group = x.groups.get(p, key)
	if p.deletesRows && !p.where.full(p.table) {
		return x.deleteRanges(p, &t, 1)
	}
	return x.change(p, &t)
}

// addMany works like add for plans with IN, tuples, or slices. Such a plan selects any number of keys and rows.
func (x *changes) addMany(p *Plan, t *target) error {
	if p.conditional && p.where.clustering.Has(relation.In) {
		return dberr.Invalidf("IN on the clustering key columns is not supported with conditional %s", p.changesName())
	}
	keys, err := p.where.keys(t.b)
	if err != nil {
		return err
	}
	if p.conditional && len(keys) > 1 {
		return dberr.Invalidf("IN on the partition key is not supported with conditional %s", p.changesName())
	}
	ranges := p.deletesRows && !p.where.full(p.table)
	var prefixes [][]byte
	if !ranges {
		if prefixes, err = p.where.prefixes(p.table, t.b); err != nil {
			return err
		}
		if err := relation.CheckCombinations(len(keys), len(prefixes)); err != nil {
			return err
		}
	}
	for _, key := range keys {
		t.group = x.groups.get(p, x.arena.keep(key))
		if ranges {
			if err := x.deleteRanges(p, t, len(keys)); err != nil {
				return err
			}
		}
		for _, c := range prefixes {
			t.clustering = x.arena.keep(c)
			if err := x.change(p, t); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Plan) changesName() string {
	if p.kind == update {
		return "updates"
	}
	return "deletions"
}

// change applies a plan to one row or to the static row.
func (x *changes) change(p *Plan, t *target) error {
	x.row.Reset(t.stamp.timestamp)
	x.header.Reset(t.stamp.timestamp)
	x.viewKeyValues, x.putRow, x.putStatic = x.viewKeyValues[:0], false, false
	if p.deletesRows {
		delta := 0
		if x.conditionalBatch && len(p.table.Clustering) == 0 {
			delta = -1
		}
		x.row.DeleteRowBefore(delta, t.stamp.at)
	}
	if p.rowMarker {
		x.row.Live(t.stamp.ttl, t.stamp.expiry)
	} else if p.missingCells {
		return dberr.Invalidf("Column %s is mandatory for this COMPACT STORAGE table", p.table.Regulars[0].Name)
	}
	for i := range p.ops {
		if err := x.apply(&p.ops[i], t); err != nil {
			return err
		}
	}
	if p.kind != remove && len(p.indexes) > 0 {
		if err := x.addKeyEntries(p, t); err != nil {
			return err
		}
	}
	x.operand(t.group, command.OpRow, t.clustering, &x.row)
	x.operand(t.group, command.OpHeader, nil, &x.header)
	if len(p.views) > 0 && p.writesRows && (!x.row.Empty() || p.readsRow) {
		if err := x.hint(p, t); err != nil {
			return err
		}
	}
	if p.conditional {
		return x.addConditions(p, t)
	}
	return nil
}

// deleteRanges applies a DELETE of a partition or of row ranges in a partition. keys is the number of partitions that
// the statement selects.
func (x *changes) deleteRanges(p *Plan, t *target, keys int) error {
	x.header.Reset(t.stamp.timestamp)
	delta := 0
	if x.conditionalBatch {
		delta = -1
	}
	if p.where.clustering.Empty() {
		x.header.DeleteRowBefore(delta, t.stamp.at)
		x.hintRange(p, t, nil, nil)
	} else {
		list, err := p.where.intervals(p.table, t.b)
		if err != nil {
			return err
		}
		if err := relation.CheckCombinations(keys, len(list)); err != nil {
			return err
		}
		for _, s := range list {
			x.header.DeleteRangeBefore(s.Start, s.End, delta, t.stamp.at)
			x.hintRange(p, t, s.Start, s.End)
		}
	}
	x.operand(t.group, command.OpHeader, nil, &x.header)
	return nil
}

// operand adds the operand of a row to a group.
func (x *changes) operand(g *group, kind command.OpKind, clustering []byte, b *row.Builder) {
	if b.Empty() {
		return
	}
	begin := len(x.arena)
	x.arena = b.Append(x.arena)
	g.ops = append(g.ops, command.Op{Kind: kind, Clustering: clustering, Operand: x.arena.tail(begin)})
}
