// SPDX-License-Identifier: Apache-2.0

package parser_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// TestGolden compares the trees of statements with the golden files. Each line of the input is a statement. Statements
// that span several lines are separated by lines that contain a single dot. The output is either the printed tree and
// the bind markers or the error.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, text := range statements(d.Input) {
				switch d.Cmd {
				case "parse":
					golden(t, &out, text)
				case "type":
					typ, err := parser.ParseType(text)
					if err != nil {
						fmt.Fprintln(&out, "error:", err)
						continue
					}
					fmt.Fprintln(&out, typ)
				case "term":
					term, _, err := parser.ParseTerm(text)
					if err != nil {
						fmt.Fprintln(&out, "error:", err)
						continue
					}
					fmt.Fprintf(&out, "%T %s\n", term, parser.TermString(term))
				default:
					d.Fatalf(t, "unknown command %s", d.Cmd)
				}
			}
			return out.String()
		})
	})
}

func golden(t *testing.T, out *strings.Builder, text string) {
	tree, markers, err := parser.Parse(text)
	if err != nil {
		fmt.Fprintln(out, "error:", err)
		return
	}
	roundTrip(t, tree)
	out.WriteString(tree.String())
	if len(markers) > 0 {
		out.WriteString("  --")
		for i, m := range markers {
			fmt.Fprintf(out, " %d:%s", i, m.Name)
		}
	}
	out.WriteString("\n")
}

// statements splits the input of a golden file at lines that contain a single dot. If the input contains no such lines,
// each line is a statement.
func statements(input string) []string {
	separator := "\n"
	if strings.Contains(input, "\n.\n") {
		separator = "\n.\n"
	}
	return strings.Split(strings.TrimSuffix(input, "\n"), separator)
}
