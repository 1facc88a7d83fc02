// SPDX-License-Identifier: Apache-2.0

package parser_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/query/cql/parser"
)

// FuzzParse parses arbitrary text. No input may cause a panic, and every error must be a client error. The printed form
// of a parsed statement must parse to an equal tree with the same markers. The seeds are the statements in the golden
// files.
func FuzzParse(f *testing.F) {
	for _, statement := range goldenStatements(f) {
		f.Add(statement)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, markers, err := parser.Parse(text)
		if err != nil {
			if _, ok := errors.AsType[*dberr.Syntax](err); ok {
				return
			}
			if _, ok := errors.AsType[*dberr.Invalid](err); ok {
				return
			}
			t.Fatalf("refused with %T: %v", err, err)
		}
		printed := tree.String()
		again, sameMarkers, err := parser.Parse(printed)
		if err != nil {
			t.Fatalf("printed text does not parse: %v\n%q", err, printed)
		}
		if !reflect.DeepEqual(tree, again) {
			t.Fatalf("printed text parses to another tree: %q, which prints %q", printed, again)
		}
		if !slices.Equal(markers, sameMarkers) {
			t.Fatalf("printed text has other markers: %q\n%v\n%v", printed, markers, sameMarkers)
		}
	})
}

// goldenStatements returns the statements in the golden files. The files are split in the same way as in TestGolden.
func goldenStatements(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		tb.Fatalf("no golden files: %v", err)
	}
	var list []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		var input []string
		for line := range strings.Lines(string(data)) {
			switch {
			case line == "parse\n", line == "type\n", line == "term\n":
				input = input[:0]
			case strings.HasPrefix(line, "----"):
				list = append(list, statements(strings.Join(input, ""))...)
				input = input[:0]
			default:
				input = append(input, line)
			}
		}
	}
	return list
}
