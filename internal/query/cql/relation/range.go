// SPDX-License-Identifier: Apache-2.0

package relation

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/schema"
)

// RangeText returns CQL relations for an interval of clustering keys in a logical partition. For an open start, start
// is nil or empty. For an open end, end is nil. If the interval contains all rows, the result is empty. CQL cannot
// express a comparison of columns with different directions. For such an interval, a comment in the result states that
// the order of the table applies.
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

// decodeBound decodes a bound of an interval. It returns the values of the first columns. behind reports whether the
// bound is after the keys with these values. For integers, both interpretations may be possible. In this case,
// decodeBound returns the more readable interpretation for this end of the interval.
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

// KeyBytes returns the total length of the values in a clustering key or in a bound of an interval.
func KeyBytes(t *schema.Table, key []byte, end bool) (n int) {
	values, _, _ := decodeBound(t, key, end)
	for _, v := range values {
		n += len(v)
	}
	return n
}

// maxBoundTries is the maximum number of trailing 0xff bytes that decodeBound appends to a bound. Computing the
// successor of a key form removes such bytes. The greatest UUID and the end of a text in descending order contain such
// bytes.
const maxBoundTries = 40

// columnsOf decodes the values of the first columns of a clustering key. If the key ends within a value, ok is false.
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

// comparisonText returns the comparison of consecutive columns in table order. from is the index of the first column.
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
