// SPDX-License-Identifier: Apache-2.0

package read

import (
	"slices"

	"github.com/ilion-db/ilion/internal/model/meter"
	"github.com/ilion-db/ilion/internal/model/schema"
	"github.com/ilion-db/ilion/internal/query/cql/expr"
	"github.com/ilion-db/ilion/internal/query/cql/relation"
)

// maskedSlot is a slot whose values are masked for clients without permission. If mask is nil, the values are replaced
// by null.
type maskedSlot struct {
	slot int
	mask *expr.Mask
}

// bindMasks finds the slots to mask. All slots must be allocated before the call.
func (p *Plan) bindMasks(env *expr.Env) {
	for i, v := range p.sel.slots {
		switch {
		case v.column.Mask == nil:
		case v.part == cellValue:
			p.masks = append(p.masks, maskedSlot{i, expr.MaskOf(v.column, env)})
		case v.part == cellWriteTimesByKey, v.part == cellTTLsByKey:
			// A timestamp together with the key reveals that the key exists.
			p.masks = append(p.masks, maskedSlot{slot: i})
		}
	}
}

// MaskedOutput reports whether result column i contains a masked column or is computed from a masked column.
func (p *Plan) MaskedOutput(i int) bool { return p.sel.outputs[i].masked }

// RestrictedMasks returns the names of the masked columns that the statement uses to restrict rows. The order is the
// table order. A client that can restrict rows by a column can determine the values of the column, even if the result
// does not contain the values.
func (p *Plan) RestrictedMasks() (names []string) {
	w := &p.where
	for c := range p.table.Columns() {
		if c.Mask != nil && (w.restricts(c) || p.ann != nil && p.ann.column == c ||
			w.token != nil && c.Kind == schema.PartitionKey) {
			names = append(names, c.Name)
		}
	}
	return names
}

// restricts reports whether a column is restricted.
func (w *where) restricts(c *schema.Column) bool {
	for _, set := range []*relation.Set{&w.pk, &w.clustering, &w.others} {
		if slices.ContainsFunc(set.List, func(r *relation.Restriction) bool { return slices.Contains(r.Columns, c) }) {
			return true
		}
	}
	return false
}

// mask returns the values of the current row for functions and aggregates. Masked values replace the stored values.
func (d *rowSlots) mask(masks []maskedSlot, m *meter.Meter) ([][]byte, error) {
	d.maskedValues = append(d.maskedValues[:0], d.values...)
	for _, s := range masks {
		if s.mask == nil {
			d.maskedValues[s.slot] = nil
			continue
		}
		var err error
		if d.maskedValues[s.slot], err = s.mask.Apply(d.values[s.slot], m); err != nil {
			return nil, err
		}
	}
	return d.maskedValues, nil
}
