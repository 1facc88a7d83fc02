// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"go/scanner"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// literalMin is the minimum length of a literal that may exceed the maximum line width. Such literals must not be
// divided, because developers search for error texts and compare recorded bytes.
const literalMin = 60

// literalColumns is the maximum width of a line with such a literal.
const literalColumns = 140

// TestCodeFits checks the width of code. A line has at most 120 columns, or literalColumns if it contains a long
// literal.
func TestCodeFits(t *testing.T) {
	eachFile(t, func(path string, source []byte) {
		whole := literals(source)
		for i, line := range strings.Split(string(source), "\n") {
			if strings.HasPrefix(strings.TrimLeft(line, "\t"), "//") {
				continue
			}
			limit := columns
			if whole[i+1] {
				limit = literalColumns
			}
			if n := width(line); n > limit {
				t.Errorf("%s:%d: the line is %d columns wide, the limit is %d", path, i+1, n, limit)
			}
		}
	})
}

// literals returns the lines, counted from 1, that contain all or part of a literal of at least literalMin columns.
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
