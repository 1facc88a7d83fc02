// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// A type that has another one twice is twice as large where it is written out: for clients, in texts, for dropped
// columns. Forty types, each with the one before it in two fields, would be a million million types. So what is within
// a type, with all that is within that, has a bound, and so has a table.
const (
	// NestedTypesMax is the greatest number of types within a user-defined type.
	NestedTypesMax = 1 << 16
	// TableTypesMax is the greatest number of types within the columns of a table together.
	TableTypesMax = 1 << 18
)

// nested counts a type and all that is within it, up to limit and little beyond.
func nested(t *cqltype.Type, limit int) int {
	n := 1
	for _, e := range t.Elems {
		if n > limit {
			break
		}
		n += nested(e, limit-n)
	}
	return n
}

func checkTypeSize(t *cqltype.Type) error {
	if nested(t, NestedTypesMax) > NestedTypesMax {
		return dberr.Invalidf("The type %s has more than %d types nested in it", t.Name, NestedTypesMax)
	}
	return nil
}

func checkTableSize(t *Table) error {
	n := 0
	for c := range t.Columns() {
		if n += nested(c.Type, TableTypesMax-n); n > TableTypesMax {
			return dberr.Invalidf("The columns of table %s have more than %d types nested in them", t.Name,
				TableTypesMax)
		}
	}
	return nil
}

// checkSizes checks what follows when a type has changed: the types and tables of its keyspace.
func (k *Keyspace) checkSizes(tables []string) error {
	for _, t := range k.Types {
		if err := checkTypeSize(t); err != nil {
			return err
		}
	}
	for _, name := range tables {
		if err := checkTableSize(k.Tables[name]); err != nil {
			return err
		}
	}
	return nil
}
