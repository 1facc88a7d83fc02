// SPDX-License-Identifier: Apache-2.0

package sql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/model/document"
)

// testNow is the current time in tests.
var testNow = time.Date(2026, 11, 23, 10, 20, 30, 123456700, time.UTC)

// rowsOf returns a source of the given items. The place of an item is its number.
func rowsOf(items []document.Value) Source {
	return func(yield func(Row, error) bool) {
		for i, v := range items {
			if !yield(Row{Place: fmt.Sprintf("%06d", i), Item: v}, nil) {
				return
			}
		}
	}
}

func parseItem(t testing.TB, text string) document.Value {
	t.Helper()
	v, err := document.Parse([]byte(text), document.Limits{})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// udf implements a user-defined function that doubles numbers.
type udf struct{}

func (udf) Call(_ context.Context, name string, args []document.Value) (document.Value, error) {
	if name != "double" || len(args) != 1 {
		return document.Value{}, fmt.Errorf("there is no function %s of %d arguments", name, len(args))
	}
	return document.NumberValue(2 * args[0].Float()), nil
}

// TestGolden checks the results of queries. The commands are items, query, pages, print, keys, conditions (the
// analysis of WHERE), and plan. Each line of an items command is an item. The following queries are evaluated over
// these items. A query is a line, or the text between two lines that contain a single dot. Lines of the form "@name =
// value" before a query set its parameters. The pages command runs queries with a small number of results per page.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		var items []document.Value
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "items" {
				items = nil
				for line := range strings.SplitSeq(d.Input, "\n") {
					items = append(items, parseItem(t, line))
				}
				return ""
			}
			var out strings.Builder
			for _, text := range statements(d.Input) {
				answer(t, d, &out, text, items)
			}
			return out.String()
		})
	})
}

// statements splits an input into queries. If the input contains single dots, it is split there. Otherwise, it is
// split at line ends, except after parameter lines.
func statements(input string) []string {
	if strings.Contains(input, "\n.\n") {
		return strings.Split(input, "\n.\n")
	}
	var out []string
	held := ""
	for line := range strings.SplitSeq(input, "\n") {
		if strings.HasPrefix(line, "@") {
			held += line + "\n"
			continue
		}
		out = append(out, held+line)
		held = ""
	}
	return out
}

// parameters extracts the parameter lines at the beginning of a text.
func parameters(t testing.TB, text string) (string, []Parameter) {
	var out []Parameter
	for strings.HasPrefix(text, "@") {
		line, rest, _ := strings.Cut(text, "\n")
		name, value, _ := strings.Cut(line, "=")
		out = append(out, Parameter{strings.TrimSpace(name), parseItem(t, value)})
		text = rest
	}
	return text, out
}

func answer(t *testing.T, d *datadriven.TestData, out *strings.Builder, text string, items []document.Value) {
	text, params := parameters(t, text)
	if d.Cmd == "print" {
		tree, err := Parse(text)
		if err != nil {
			fmt.Fprintln(out, "error:", message(err))
			return
		}
		fmt.Fprintln(out, tree)
		return
	}
	q, err := Compile(text, params)
	if err != nil {
		fmt.Fprintln(out, "error:", message(err))
		return
	}
	switch d.Cmd {
	case "query":
		_, err = q.Run(context.Background(), rowsOf(items), Run{Functions: udf{}, Now: testNow},
			func(v document.Value) error {
				fmt.Fprintln(out, v)
				return nil
			})
	case "pages":
		err = pages(d, out, q, items)
	case "keys":
		err = printKeys(d, out, q)
	case "conditions":
		fmt.Fprintln(out, filterText(q.Filter()))
	case "plan":
		fmt.Fprintln(out, string(Plan(q, nil)))
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	if err != nil {
		fmt.Fprintln(out, "error:", message(err))
	}
	if len(statements(d.Input)) > 1 && d.Cmd == "query" {
		fmt.Fprintln(out, "--")
	}
}

// filterText formats a filter.
func filterText(f *Filter) string {
	if f == nil {
		return "nothing"
	}
	var parts []string
	for _, of := range f.Of {
		parts = append(parts, filterText(of))
	}
	if len(parts) > 0 {
		return "(" + strings.Join(parts, " "+f.Op+" ") + ")"
	}
	var path []byte
	for _, s := range f.Path {
		path = document.AppendStep(path, s)
	}
	return fmt.Sprint(string(path), " ", f.Op, " ", f.Values)
}

func message(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return fmt.Sprintf("%s %d-%d %s", e.Code, e.Start, e.End, e.Message)
	}
	return err.Error()
}

func pages(d *datadriven.TestData, out *strings.Builder, q *Query, items []document.Value) error {
	n := 2
	d.MaybeScanArgs(&testing.T{}, "size", &n)
	var after *Continuation
	for page := 1; ; page++ {
		fmt.Fprintf(out, "page %d from %q:", page, after.Start())
		source := func(yield func(Row, error) bool) {
			for r := range rowsOf(items) {
				if r.Place >= after.Start() && !yield(r, nil) {
					return
				}
			}
		}
		next, err := q.Run(context.Background(), source, Run{Page: n, After: after}, func(v document.Value) error {
			fmt.Fprintf(out, " %v", v)
			return nil
		})
		fmt.Fprintln(out)
		if err != nil || next == nil {
			return err
		}
		if after, err = ParseContinuation(next.String()); err != nil {
			return err
		}
	}
}

func printKeys(d *datadriven.TestData, out *strings.Builder, q *Query) error {
	var paths []document.Path
	for _, arg := range d.CmdArgs {
		p, err := document.ParsePath(arg.Key)
		if err != nil {
			return err
		}
		paths = append(paths, p)
	}
	keys, ok := q.Keys(paths)
	if !ok {
		fmt.Fprintln(out, "all")
		return nil
	}
	for i, k := range keys {
		if i > 0 {
			out.WriteString(" ")
		}
		fmt.Fprint(out, k.Components)
		if k.HasID {
			fmt.Fprintf(out, " id %q", k.ID)
		}
	}
	if len(keys) == 0 {
		out.WriteString("none")
	}
	out.WriteString("\n")
	return nil
}
