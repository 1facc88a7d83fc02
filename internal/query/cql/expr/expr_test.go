// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden checks the names, types, values and errors of terms and selectors. Each command has one term per line:
//
//	value type=t     terms bound for a column v of that type
//	select           selectors over the row of fixture_test.go
//	bind type=t      one term, then a line per bound value in hex, null or unset: what it evaluates to
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			lines := strings.Split(d.Input, "\n")
			switch d.Cmd {
			case "value":
				for _, line := range lines {
					fmt.Fprintf(&out, "%s\n", valueLine(t, line, typeArg(t, d)))
				}
			case "select":
				for _, line := range lines {
					fmt.Fprintf(&out, "%s\n", selectLine(t, line))
				}
			case "bind":
				bindLines(t, &out, lines, typeArg(t, d))
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return out.String()
		})
	})
}

func typeArg(t *testing.T, d *datadriven.TestData) string {
	for _, a := range d.CmdArgs {
		if a.Key == "type" {
			return strings.Join(a.Vals, ", ")
		}
	}
	t.Fatal("type is missing")
	return ""
}

func valueLine(t *testing.T, text, typeName string) string {
	term, n := mustTerm(t, text)
	typ := mustType(t, typeName)
	bound, err := Bind(term, Receiver{Name: "v", Type: typ}, testEnv(n))
	if err != nil {
		return formatError(err)
	}
	v, state, err := bound.Eval(testBindings())
	if err != nil {
		return "on evaluation: " + formatError(err)
	}
	if state != Value {
		return "null"
	}
	return fmt.Sprintf("%s = %x", typ.Format(v), v)
}

func selectLine(t *testing.T, text string) string {
	list, n := selectors(t, text)
	var parts []string
	for _, s := range list {
		scope := &testScope{}
		env := testEnv(n)
		bound, err := BindSelector(s.Term, scope, env)
		if err != nil {
			parts = append(parts, formatError(err))
			continue
		}
		b := testBindings()
		b.Row = scope.row(t)
		for _, a := range env.Aggregates {
			acc := a.New()
			for range 2 { // the selectors are evaluated twice with the same row
				if err := acc.Add(b); err != nil {
					return "on adding: " + formatError(err)
				}
			}
			v, err := acc.Result(&Bindings{})
			if err != nil {
				return formatError(err)
			}
			b.Aggregates = append(b.Aggregates, v)
		}
		name := SelectorName(s.Term, scope, env)
		v, state, err := bound.Eval(b)
		switch {
		case err != nil:
			parts = append(parts, name+": "+formatError(err))
		case state != Value:
			parts = append(parts, fmt.Sprintf("%s %s: null", name, bound.Type()))
		default:
			parts = append(parts, fmt.Sprintf("%s %s: %s", name, bound.Type(), bound.Type().Format(v)))
		}
	}
	return strings.Join(parts, "\n")
}

func bindLines(t *testing.T, out *strings.Builder, lines []string, typeName string) {
	term, n := mustTerm(t, lines[0])
	typ := mustType(t, typeName)
	env := testEnv(n)
	bound, err := Bind(term, Receiver{Name: "v", Type: typ}, env)
	if err != nil {
		fmt.Fprintln(out, formatError(err))
		return
	}
	for _, v := range env.Variables() {
		fmt.Fprintf(out, "variable %s %s\n", v.Name, v.Type)
	}
	for _, line := range lines[1:] {
		b := testBindings()
		for _, field := range strings.Fields(line) {
			v, err := hex.DecodeString(field)
			b.Unset = append(b.Unset, field == "unset")
			if field == "null" || field == "unset" {
				v = nil
			} else if field == "empty" {
				v = []byte{}
			} else if err != nil {
				t.Fatal(err)
			}
			b.Values = append(b.Values, v)
		}
		v, state, err := bound.Eval(b)
		switch {
		case err != nil:
			fmt.Fprintln(out, formatError(err))
		case state == Unset:
			fmt.Fprintln(out, "unset")
		case state == Null:
			fmt.Fprintln(out, "null")
		default:
			fmt.Fprintf(out, "%s = %x\n", typ.Format(v), v)
		}
	}
}

// TestAggregates compares aggregates over several rows, including nulls and overflow, with results recorded from
// Cassandra.
func TestAggregates(t *testing.T) {
	for _, c := range []struct {
		name, call, typ string
		rows            []string
		want            string
	}{
		{"integers are divided", "avg(c)", "int", []string{"10", "20", "31", ""}, "20"},
		{"sums wrap around", "sum(c)", "int", []string{"2147483647", "1"}, "-2147483648"},
		{"averages do not", "avg(c)", "int", []string{"2147483647", "1"}, "1073741824"},
		{"sums of bigint wrap around", "sum(d)", "bigint", []string{"9223372036854775807", "1"},
			"-9223372036854775808"},
		{"averages of bigint do not", "avg(d)", "bigint", []string{"9223372036854775807", "1"}, "4611686018427387904"},
		{"a tinyint sum wraps around", "sum(a)", "tinyint", []string{"100", "100"}, "-56"},
		{"decimal sum", "sum(h)", "decimal", []string{"1.10", "2.205", "3.3"}, "6.605"},
		{"decimal average is carried along", "avg(h)", "decimal", []string{"1.10", "2.205", "3.3"}, "2.201"},
		{"varint average", "avg(g)", "varint", []string{"5", "7", "9"}, "7"},
		{"float average", "avg(e)", "float", []string{"1.25", "2.5", "3.5"}, "2.4166667"},
		{"double average beyond the range", "avg(f)", "double", []string{"1.7e308", "1.7e308"}, "1.7E308"},
		{"compensated sum", "sum(f)", "double", []string{"1e100", "1", "-1e100"}, "1.0"},
		{"infinities", "sum(f)", "double", []string{"Infinity", "-Infinity"}, "NaN"},
		{"no rows", "avg(h)", "decimal", nil, "0"},
		{"text minimum", "min(s)", "text", []string{"'q'", "'r'", "'a'", ""}, "'a'"},
		{"nulls do not count", "count(c)", "int", []string{"1", "", "2"}, "2"},
		{"rows do", "count(*)", "int", []string{"1", "", "2"}, "3"},
		{"nothing is smallest", "min(c)", "int", []string{"", ""}, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, _ := selectors(t, c.call)
			scope := &testScope{}
			env := testEnv(0)
			term, err := BindSelector(list[0].Term, scope, env)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := term.(*aggregateResult); !ok {
				t.Fatalf("%T", term)
			}
			acc := env.Aggregates[0].New()
			for range 2 { // the second round follows Reset
				acc.Reset()
				for _, r := range c.rows {
					b := &Bindings{Row: make([][]byte, 1)}
					if r != "" {
						b.Row[0] = mustValue(t, r, mustType(t, c.typ))
					}
					if err := acc.Add(b); err != nil {
						t.Fatal(err)
					}
				}
				v, err := acc.Result(&Bindings{})
				got := "null"
				if v != nil {
					got = env.Aggregates[0].Type().Format(v)
				}
				if err != nil || got != c.want {
					t.Fatalf("%s, %v; want %s", got, err, c.want)
				}
			}
		})
	}
}
