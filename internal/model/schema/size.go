// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
)

// A type that contains another type twice is twice as large when expanded. Types are expanded for clients, in texts,
// and for dropped columns. Forty types, each with two fields of the previous type, would expand to a trillion types.
// The number of nested types in a type and in a table is therefore limited.
const (
	// NestedTypesMax is the maximum number of types nested in a user-defined type.
	NestedTypesMax = 1 << 16
	// TableTypesMax is the maximum total number of types in the columns of a table.
	TableTypesMax = 1 << 18
)

// nested counts a type and all types nested in it. It stops soon after the count exceeds limit.
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
		return dberr.Invalidf("The type %s contains more than %d nested types", t.Name, NestedTypesMax)
	}
	return nil
}

func checkTableSize(t *Table) error {
	n := 0
	for c := range t.Columns() {
		if n += nested(c.Type, TableTypesMax-n); n > TableTypesMax {
			return dberr.Invalidf("The columns of table %s contain more than %d nested types", t.Name,
				TableTypesMax)
		}
	}
	return nil
}

// checkSizes checks the types and tables of the keyspace after a type has changed.
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
