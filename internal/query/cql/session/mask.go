// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"

	"github.com/ilion-db/ilion/internal/model/access"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// maskedUse lists the masked columns that a statement uses in restrictions or conditions, which could reveal the column
// values. If needsUnmask is true, a transaction compares or copies the values and requires the UNMASK permission.
type maskedUse struct {
	table       *schema.Table
	columns     []string
	needsUnmask bool
}

// noteMaskedUse records the masked columns that a statement uses to restrict rows.
func (st *statement) noteMaskedUse(t *schema.Table, columns []string) {
	if len(columns) > 0 {
		st.maskedUses = append(st.maskedUses, maskedUse{table: t, columns: columns})
	}
}

// checkMaskedUse returns an error if the role lacks the permission to use the masked columns.
func (i *identity) checkMaskedUse(who *access.Subject, c *maskedUse) error {
	on := access.OfTable(c.table.Keyspace, c.table.Name)
	columns := strings.Join(c.columns, ", ")
	switch {
	case i.engine.opts.MaskingOff || who.May(access.Unmask, on):
		return nil
	case c.needsUnmask:
		return dberr.Unauthorizedf("User %s has no UNMASK permission on table %s, cannot use masked columns [%s] in a "+
			"transaction", who.Name, c.table, columns)
	case who.May(access.SelectMasked, on):
		return nil
	}
	return dberr.Unauthorizedf("User %s has no UNMASK nor SELECT_MASKED permission on table %s, cannot query masked "+
		"columns [%s]", who.Name, c.table, columns)
}

// clear reports whether the client may see unmasked values of all tables.
func (i *identity) clear(tables []*schema.Table) bool {
	if i.engine.opts.MaskingOff {
		return true
	}
	who, err := i.subject()
	switch {
	case err != nil:
		return false
	case who == nil || who.Superuser:
		return true
	}
	for _, t := range tables {
		if !who.May(access.Unmask, access.OfTable(t.Keyspace, t.Name)) {
			return false
		}
	}
	return true
}
