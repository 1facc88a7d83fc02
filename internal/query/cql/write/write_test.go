// SPDX-License-Identifier: Apache-2.0

package write

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// TestGolden compares the commands of statements with the golden files. Each file has a separate fixture. A line that
// starts with blanks continues the previous statement. The commands are:
//
//	ddl                      changes the schema
//	plan                     what PREPARE tells: the markers and which are the partition key
//	send [ts=n] [cl=X]       executes and shows what is sent; values follow `<-`
//	run [ts=n] [cl=X]        executes and shows the outcome only
//	message kind=n           the statements of a BATCH message
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		w := newFixture(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			if d.Cmd == "message" {
				w.message(t, &out, d)
				return out.String()
			}
			for _, line := range statements(d.Input) {
				text, bound, _ := strings.Cut(line, " <- ")
				switch d.Cmd {
				case "ddl":
					w.mustDDL(t, text)
				case "plan":
					fmt.Fprintln(&out, w.planText(text))
				case "send", "run":
					w.sent = nil
					r := w.request()
					applyArgs(t, d, r)
					r.Values, r.Unset = parseValues(t, bound)
					o := w.execute(text, r)
					if d.Cmd == "send" {
						for _, s := range w.sent {
							fmt.Fprintln(&out, s)
						}
						if o.Err == nil && o.Columns == nil {
							if len(w.sent) == 0 {
								fmt.Fprintln(&out, "nothing")
							}
							continue
						}
					}
					fmt.Fprintln(&out, o)
				default:
					t.Fatalf("unknown command %s", d.Cmd)
				}
			}
			return out.String()
		})
	})
}

// statements joins continued lines.
func statements(input string) []string {
	var out []string
	for _, line := range strings.Split(input, "\n") {
		if strings.HasPrefix(line, " ") && len(out) > 0 {
			out[len(out)-1] += " " + strings.TrimSpace(line)
		} else if line != "" {
			out = append(out, line)
		}
	}
	return out
}

var levels = map[string]dberr.Consistency{"ANY": dberr.Any, "ONE": dberr.One, "QUORUM": dberr.Quorum,
	"SERIAL": dberr.Serial}

func applyArgs(t *testing.T, d *datadriven.TestData, r *Request) {
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "ts":
			n, err := strconv.ParseInt(a.Vals[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			r.Timestamp, r.HasTimestamp = n, true
		case "cl":
			r.Level = levels[a.Vals[0]]
		case "serial":
			r.Serial = levels[a.Vals[0]]
		}
	}
}

func (w *fixture) planText(text string) string {
	stmt, markers, err := parser.Parse(text)
	if err != nil {
		return err.Error()
	}
	var vars []string
	if b, ok := stmt.(*parser.Batch); ok {
		plan, err := PrepareBatch(b, w, len(markers))
		if err != nil {
			return (&outcome{Outcome: Outcome{Err: err}}).String()
		}
		for _, v := range plan.Variables() {
			vars = append(vars, v.Name+" "+v.Type.String())
		}
		return fmt.Sprintf("%s; pk %v", strings.Join(vars, ", "), plan.PKIndexes())
	}
	plan, err := w.prepare(text)
	if err != nil {
		return (&outcome{Outcome: Outcome{Err: err}}).String()
	}
	for _, v := range plan.Variables() {
		vars = append(vars, v.Name+" "+v.Type.String())
	}
	return fmt.Sprintf("%s; pk %v", strings.Join(vars, ", "), plan.PKIndexes())
}

func (w *fixture) message(t *testing.T, out *strings.Builder, d *datadriven.TestData) {
	var kind int
	d.ScanArgs(t, "kind", &kind)
	var items []BatchItem
	for _, line := range statements(d.Input) {
		text, bound, _ := strings.Cut(line, " <- ")
		plan, err := w.prepare(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		item := BatchItem{Plan: plan}
		item.Values, item.Unset = parseValues(t, bound)
		items = append(items, item)
	}
	w.sent = nil
	r, o := w.request(), &outcome{}
	applyArgs(t, d, r)
	w.executor.ExecuteItems(context.Background(), BatchKind(kind), items, r, o)
	for _, s := range w.sent {
		fmt.Fprintln(out, s)
	}
	fmt.Fprintln(out, o)
}
