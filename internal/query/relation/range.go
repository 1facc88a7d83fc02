// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// RangeText says in CQL which rows of a logical partition an interval of clustering keys has: relations that go behind
// WHERE. An open end is nil, or empty for the first row. It is empty for all rows. Where columns that are in different
// orders are compared together CQL has no words for it: a comment says that the order of the table is meant.
func RangeText(t *schema.Table, start, end []byte) string {
	low, lowBehind, lowKnown := decodeBound(t, start, false)
	high, highBehind, highKnown := decodeBound(t, end, true)
	if !lowKnown || !highKnown {
		return fmt.Sprintf("/* clustering keys from 0x%x, before 0x%x */", start, end)
	}
	equal := 0
	for equal < min(len(low), len(high)) && bytes.Equal(low[equal], high[equal]) {
		equal++
	}
	var parts []string
	for i := range equal {
		parts = append(parts, comparisonText(t, i, low[i:i+1], "=", false))
	}
	tuples := len(low)-equal > 1 || len(high)-equal > 1
	if len(low) > equal {
		op := ">="
		if lowBehind {
			op = ">"
		}
		parts = append(parts, comparisonText(t, equal, low[equal:], op, tuples))
	}
	if len(high) > equal {
		op := "<"
		if highBehind {
			op = "<="
		}
		parts = append(parts, comparisonText(t, equal, high[equal:], op, tuples))
	}
	return strings.Join(parts, " AND ")
}

// edge takes an end of an interval apart: the values of the first columns, and whether it stands behind the keys that
// have them, not before. Of integers both may be true; then it is what reads best for the end that it is.
func decodeBound(t *schema.Table, key []byte, end bool) (values [][]byte, behind, known bool) {
	if len(key) == 0 {
		return nil, false, true
	}
	exact, ok := columnsOf(t, key)
	if ok && !end {
		return exact, false, true
	}
	if before := bytes.Clone(key); before[len(before)-1] > 0 {
		before[len(before)-1]--
		for range maxBoundTries {
			if values, ok := columnsOf(t, before); ok {
				return values, true, true
			}
			before = append(before, 0xff)
		}
	}
	return exact, false, ok
}

// KeyBytes is how many bytes the values have that a clustering key, or an end of an interval of them, is made of.
func KeyBytes(t *schema.Table, key []byte, end bool) (n int) {
	values, _, _ := decodeBound(t, key, end)
	for _, v := range values {
		n += len(v)
	}
	return n
}

// edgeTries is how many bytes 0xff at the end of a key form its successor may have lost: those of the greatest value of
// a UUID, or of what ends a text in descending order.
const maxBoundTries = 40

// columnsOf reads the values of the first columns of a clustering key; ok is false if it is not made of whole forms.
func columnsOf(t *schema.Table, key []byte) (values [][]byte, ok bool) {
	for _, c := range t.Clustering {
		if len(key) == 0 {
			break
		}
		v, rest, err := c.Type.ReadKey(nil, key, c.Desc)
		if err != nil {
			return nil, false
		}
		values, key = append(values, v), rest
	}
	return values, len(key) == 0
}

// compared compares columns from one on, by the order of the table.
func comparisonText(t *schema.Table, from int, values [][]byte, op string, tuple bool) string {
	desc, mixed := t.Clustering[from].Desc, false
	var names, literals []string
	for i, v := range values {
		c := t.Clustering[from+i]
		mixed = mixed || c.Desc != desc
		names, literals = append(names, cqltype.QuoteName(c.Name)), append(literals, c.Type.Format(v))
	}
	if desc && !mixed {
		op = strings.NewReplacer("<", ">", ">", "<").Replace(op)
	}
	if mixed {
		op += " /* in the order of the table */"
	}
	name, literal := strings.Join(names, ", "), strings.Join(literals, ", ")
	if tuple {
		name, literal = "("+name+")", "("+literal+")"
	}
	return name + " " + op + " " + literal
}
