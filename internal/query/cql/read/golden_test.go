// SPDX-License-Identifier: Apache-2.0

package read

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// TestGolden compares plans and results with the golden files. The command scene executes statements that create a
// schema and rows. The command explain prints a plan. The command select prints all pages of a result. The command
// prepare prints the bind markers.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		w := newFixture()
		if err := w.set(mustParse(t, "CREATE KEYSPACE ks WITH replication = {}"), 0, binds{}); err != nil {
			t.Fatal(err)
		}
		w.keyspace = "ks"
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "scene":
				for _, line := range strings.Split(d.Input, "\n") {
					if err := w.set(mustParse(t, line), 0, binds{}); err != nil {
						d.Fatalf(t, "%s: %v", line, err)
					}
				}
				return ""
			case "later": // advances the clock
				var n int
				d.ScanArgs(t, "seconds", &n)
				w.now += int64(n)
				return ""
			}
			p, err := w.prepare(d.Input)
			if err != nil {
				return err.Error() + "\n"
			}
			switch d.Cmd {
			case "explain":
				return p.Explain()
			case "prepare":
				return prepareText(p)
			case "select":
				size := 0
				d.MaybeScanArgs(t, "page", &size)
				return w.show(p, size)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func mustParse(t *testing.T, text string) parser.Statement {
	t.Helper()
	s, _, err := parser.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func prepareText(p *Plan) string {
	var b strings.Builder
	for _, v := range p.Variables() {
		b.WriteString(v.Name + " " + v.Type.String() + "\n")
	}
	if pk := p.PKIndexes(); pk != nil {
		b.WriteString("partition key:")
		for _, i := range pk {
			b.WriteString(" " + string(rune('0'+i)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// show executes a plan page by page.
func (w *fixture) show(p *Plan, size int) string {
	var b strings.Builder
	var state []byte
	for {
		page, err := w.execute(p, binds{}, Options{PageSize: size, PagingState: state})
		if err != nil {
			b.WriteString(err.Error() + "\n")
			return b.String()
		}
		for _, cells := range decode(page, len(p.Columns())) {
			b.WriteString(formatRow(p, cells) + "\n")
		}
		for _, text := range page.Warnings {
			b.WriteString("warning: " + text + "\n")
		}
		if len(page.PagingState) == 0 {
			return b.String()
		}
		state = page.PagingState
		b.WriteString("-- more\n")
	}
}

func formatRow(p *Plan, cells []string) string {
	out := make([]string, len(cells))
	for i, c := range cells {
		if out[i] = c; c == "null" {
			continue
		}
		raw, _ := hex.DecodeString(c[2:])
		out[i] = p.Columns()[i].Type.Format(raw)
		if p.Columns()[i].Type.Kind == cqltype.Text {
			out[i] = strings.Trim(out[i], "'")
		}
	}
	return strings.Join(out, " | ")
}
