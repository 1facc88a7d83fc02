// SPDX-License-Identifier: Apache-2.0

package write

import (
	"bytes"
	"math"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/view"
)

// planView is a materialized view of a plan's table. skip reports whether the plan never affects the view.
type planView struct {
	*view.View
	skip bool
}

// viewKeyValue is a row's value of a column in the key of a view.
type viewKeyValue struct {
	column *schema.Column
	value  []byte
}

// bindViews finds the views of the plan's table.
func (p *Plan) bindViews() error {
	views, err := view.Of(p.keyspace, p.table)
	if err != nil {
		return dberr.Serverf("%s", err)
	}
	for _, v := range views {
		skip := !p.deletesRows && !v.Affected(func(c *schema.Column) bool {
			for i := range p.ops {
				if p.ops[i].column == c {
					return true
				}
			}
			return false
		})
		p.views = append(p.views, &planView{v, skip})
		for i := range p.ops {
			o := &p.ops[i]
			o.keyed = o.keyed || o.column == v.Key()
			if o.keyed && o.kind == addValue {
				return dberr.Invalidf("Column %s is in the key of a materialized view: it can be set to a value but not "+
					"added to", o.column.Name)
			}
		}
	}
	return nil
}

// hint adds the view hints for a change of a row.
func (x *changes) hint(p *Plan, t *target) error {
	for _, v := range p.views {
		if v.skip {
			continue
		}
		var value []byte
		for i := range x.viewKeyValues {
			if x.viewKeyValues[i].column == v.Key() {
				value = x.viewKeyValues[i].value
			}
		}
		if err := v.CheckPlace(t.group.key, t.clustering, value); err != nil {
			return err
		}
		t.group.ops = v.Row(t.group.ops, t.clustering, value, p.kind != remove)
	}
	return nil
}

// hintRange adds the view hints for the deletion of a range of rows.
func (x *changes) hintRange(p *Plan, t *target, start, end []byte) {
	for _, v := range p.views {
		t.group.ops = v.Range(t.group.ops, start, end)
	}
}

// hintsOf returns the view hints for a replanned part of a batch.
func hintsOf(s *schema.Schema, t *schema.Table, ops []command.Op, c *command.Conditional) (
	out []command.Op, err error) {
	views, err := view.Of(s.Keyspaces[t.Keyspace], t)
	if err != nil {
		return nil, err
	}
	for _, v := range views {
		for i := range ops {
			operand := bytes.Clone(ops[i].Operand)
			row.Stamp(operand, inspectionTimestamp)
			switch ops[i].Kind {
			case command.OpRow:
				var r row.Row
				if _, err := r.Resolve(operand, row.NotDeleted, math.MinInt64, nil); err != nil {
					return nil, err
				}
				out = append(out, v.Ops(ops[i].Clustering, &r)...)
			case command.OpHeader:
				var h row.Header
				if err := h.Resolve(operand, math.MinInt64, nil); err != nil {
					return nil, err
				}
				if h.Deleted != row.NotDeleted {
					out = v.Range(out, nil, nil)
				}
				for _, g := range h.Ranges {
					out = v.Range(out, bytes.Clone(g.Start), bytes.Clone(g.End))
				}
			}
		}
		for _, u := range c.Updates {
			if ref := c.Rows[u.Row]; !ref.Static {
				out = v.Row(out, ref.Clustering, nil, true)
			}
		}
	}
	return out, nil
}
