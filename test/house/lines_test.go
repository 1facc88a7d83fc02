// SPDX-License-Identifier: Apache-2.0

package house

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// literalMin is the width from which a literal may make its line too wide: texts of errors are searched for, and
// recorded bytes are compared, so both are kept whole.
const literalMin = 60

// TestCodeFits proves that code is read without scrolling: a line has at most 120 columns, but for a long literal in
// it.
func TestCodeFits(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		whole := literals(text)
		for i, line := range strings.Split(string(text), "\n") {
			if whole[i+1] || strings.HasPrefix(strings.TrimLeft(line, "\t"), "//") {
				continue
			}
			if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); n > columns {
				t.Errorf("%s:%d: the line is %d columns wide, at most %d are", path, i+1, n, columns)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// literals returns the lines, counted from 1, on which a literal of at least literalMin columns lies, or a part of one.
func literals(source []byte) map[int]bool {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for {
		at, tok, text := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok != token.STRING || utf8.RuneCountInString(text) < literalMin {
			continue
		}
		first := file.Line(at)
		for i := range strings.Count(text, "\n") + 1 {
			lines[first+i] = true
		}
	}
}
