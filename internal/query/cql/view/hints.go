// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"

	"github.com/ilion-db/ilion/internal/model/command"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// Row appends the hints of a row write for the view. The hints mark the row as due. If the row may have a new place in
// the view, Row also adds the place. value is the written value of the view key column that is not a base key column,
// or nil. insert reports whether the write may create the row. If the view has no such key column, Row always adds the
// place, because the row may be older than the view.
func (v *View) Row(dst []command.Op, clustering, value []byte, insert bool) []command.Op {
	n := len(clustering)
	if v.key == nil || insert && value != nil {
		rest := keys.AppendViewRow(make([]byte, 0, 2*n+len(value)+8), clustering, value)
		dst = append(dst, v.op(keys.HintViewRow, rest))
	}
	return append(dst, v.op(keys.HintStale, keys.AppendStaleRow(make([]byte, 0, n+1), clustering)))
}

// Range appends the hint for a deletion of the rows in [start, end). If end is nil, the range is unbounded.
func (v *View) Range(dst []command.Op, start, end []byte) []command.Op {
	return append(dst, v.op(keys.HintStale, keys.AppendStaleRange(nil, start, end)))
}

func (v *View) op(value, rest []byte) command.Op {
	return command.Op{Kind: command.OpIndex, Index: v.Index, Value: value, Clustering: rest}
}

// Key returns the view key column that is not a base key column, or nil.
func (v *View) Key() *schema.Column { return v.key }

// Affected reports whether a write of regular columns can affect the view.
func (v *View) Affected(changes func(c *schema.Column) bool) bool { return v.affected(changes) }

// longKey is the key length above which CheckPlace computes the exact length.
const longKey = keys.MaxLen / 2

// CheckPlace rejects a row whose key in the view would be too long.
func (v *View) CheckPlace(key, clustering, value []byte) error {
	if len(key)+len(clustering)+len(value) < longKey {
		return nil
	}
	w, err := v.valuesOf(key, clustering)
	if err != nil {
		return err
	}
	total := 0
	for _, s := range v.clustering {
		if s.from == v.key {
			total += len(value)
		} else {
			total += len(w.of(s.from))
		}
	}
	p, _ := v.place(&w, value)
	if n := max(len(p.Key), total); n > keys.MaxLen {
		return dberr.Invalidf("Key length of %d is longer than maximum of %d in materialized view %s", n, keys.MaxLen,
			v.Table.Name)
	}
	return nil
}

// Ops returns the hints of an existing row. View builds and replanned batch parts use Ops.
func (v *View) Ops(clustering []byte, r *row.Row) []command.Op {
	var value []byte
	if v.key != nil {
		if cell := r.Cell(v.key.ID); cell != nil {
			value = bytes.Clone(cell.Value)
		}
	}
	return v.Row(nil, clustering, value, true)
}

// Entries returns the result of Ops for the view that a hint index belongs to.
func Entries(ks *schema.Keyspace, base *schema.Table, ix *schema.Index, clustering []byte, r *row.Row) (
	[]command.Op, error) {
	t := ks.Tables[ix.View()]
	if t == nil || t.View == nil {
		return nil, nil
	}
	v := View{Index: ix.ID, key: base.ViewKey(t)}
	return v.Ops(clustering, r), nil
}
