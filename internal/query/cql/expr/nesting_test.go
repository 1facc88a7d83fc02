// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/compat"
	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

func nestingEnv(markers int) *Env {
	return NewEnv(compat.Cassandra50, testKeyspace, testTable, markers)
}

// valueBinder returns a function that binds a term for a type outside a SELECT clause.
func valueBinder(typ *cqltype.Type) func(text string) error {
	return func(text string) error {
		term, markers, err := parser.ParseTerm(text)
		if err != nil {
			return err // columns are not available
		}
		_, err = Bind(term, Receiver{Name: "v", Type: typ}, nestingEnv(len(markers)))
		return err
	}
}

// nestedList returns a nested list type of ints. depth is the nesting depth.
func nestedList(depth int) *cqltype.Type {
	if depth == 0 {
		return tInt
	}
	return cqltype.ListOf(nestedList(depth - 1)).Freeze()
}

// TestNestedCallsBindQuickly checks that the time for binding nested calls, operators, and literals is polynomial in
// the nesting depth. When the depth doubles, the number of allocations must not increase by more than a factor of five.
// The test covers valid and invalid terms inside and outside SELECT clauses.
func TestNestedCallsBindQuickly(t *testing.T) {
	nested := func(open, inner, end string) func(n int) string {
		return func(n int) string { return strings.Repeat(open, n) + inner + strings.Repeat(end, n) }
	}
	for name, text := range map[string]func(n int) string{
		"to_json":             nested("to_json(", "c", ")"),
		"to_json of a marker": nested("to_json(", "?", ")"),
		"to_json of a list":   nested("to_json([", "c", "])"),
		"to_json of a number": nested("to_json(", "1", ")"),
		"min of max":          nested("min(max(", "fl", "))"),
		"min of a marker":     nested("min(", "?", ")"),
		"casts":               nested("CAST(CAST(", "c", " AS text) AS ascii)"),
		"casts of markers":    nested("CAST(", "?", " AS int)"),
		"casts of calls":      nested("CAST(abs(", "c", ") AS int)"),
		"hints":               nested("(int)", "?", ""),
		"hints of sums":       nested("(int)(c + ", "?", ")"),
		"abs":                 nested("abs(", "c", ")"),
		"abs of a marker":     nested("abs(", "?", ")"),
		"abs of a number":     nested("abs(", "1", ")"),
		"round of a sum":      nested("round(c + ", "1", ")"),
		"sums":                nested("(1 + ", "?", ")"),
		"sums on the left":    nested("(", "?", " + 1)"),
		"sums of markers":     nested("(? * ", "?", ")"),
		"negations":           nested("-(", "?", ")"),
		"sums of calls":       nested("abs(abs(c) + ", "?", ")"),
		"texts":               nested("(s + ", "s", ")"),
		"lists":               nested("[", "1", "]"),
		"lists of markers":    nested("[", "?", "]"),
		"sets":                nested("{", "1", "}"),
		"maps":                nested("{1: ", "1", "}"),
		"tuples":              nested("(", "1", ", 2)"),
		"user types":          nested("{street: 'x', zip: ", "1", "}"),
		"minima":              nested("collection_min([", "c", "])"),
		"minima of numbers":   nested("collection_min([", "1", "])"),
		"minima of markers":   nested("collection_min([", "?", "])"),
		"sums of lists":       nested("collection_sum([", "1.5", "])"),
		"keys":                nested("map_keys({", "c", ": 1})"),
		"masks":               nested("mask_inner(", "s", ", 1, 1)"),
		"masks of markers":    nested("mask_inner(", "?", ", 1, 1)"),
		"masks replaced":      nested("mask_replace(", "s", ", ?)"),
		"defaults":            nested("mask_default(", "?", ")"),
		"similarities":        nested("similarity_cosine([", "1", "], [1])"),
		"blobs":               nested("int_as_blob(blob_as_int(", "?", "))"),
		"token":               nested("token(", "c", ")"),
		"unknown":             nested("nothing(", "c", ")"),
		"unknown inside":      nested("abs(", "nothing(c)", ")"),
		"unknown column":      nested("abs(", "missing", ")"),
		"wrong number":        nested("abs(", "1", ", 1)"),
		"time":                nested("to_date(to_timestamp(", "?", "))"),
		"floor":               nested("floor(", "ts", ", 1h)"),
	} {
		for place, bind := range map[string]func(text string) error{
			"SELECT": func(text string) error {
				stmt, markers, err := parser.Parse("SELECT " + text + " FROM ks.t")
				if err != nil {
					return err
				}
				term, n := stmt.(*parser.Select).Selectors[0].Term, len(markers)
				SelectorName(term, new(testScope), nestingEnv(n))
				_, err = BindSelector(term, new(testScope), nestingEnv(n))
				return err
			},
			"a text":      valueBinder(tText),
			"a number":    valueBinder(tDecimal),
			"a list":      valueBinder(cqltype.ListOf(tInt)),
			"nested list": valueBinder(nestedList(32)),
		} {
			before, err := 0.0, error(nil)
			for depth := 4; depth <= 32; depth *= 2 {
				allocations := testing.AllocsPerRun(1, func() { err = bind(text(depth)) })
				if before > 0 && allocations > 5*before+1000 {
					t.Errorf("%s, %s: %.0f allocations at depth %d, %.0f at depth %d: %.100v", place, name, before, depth/2,
						allocations, depth, err)
					break
				}
				before = allocations
			}
			if testing.Verbose() {
				t.Logf("%s, %s: %.0f allocations, %.100v", place, name, before, err)
			}
		}
	}
}
