// SPDX-License-Identifier: Apache-2.0

package statement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/ilion-db/ilion/internal/tool/shell/statement"
)

func isCommand(word string) bool {
	return slices.Contains([]string{"HELP", "TRACING", "SOURCE", "?"}, word)
}

// split adds a text line by line.
func split(text string) (out []statement.Statement, s *statement.Splitter, err error) {
	s = &statement.Splitter{IsCommand: isCommand}
	for line := range strings.Lines(text) {
		more, err := s.Add(line)
		out = append(out, more...)
		if err != nil {
			return out, s, err
		}
	}
	return out, s, nil
}

// TestSplit checks where the statements in testdata/split.txt end. The file contains strings, names, comments, blocks,
// and commands.
func TestSplit(t *testing.T) {
	datadriven.RunTest(t, "testdata/split.txt", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		all, s, err := split(d.Input)
		for _, st := range all {
			fmt.Fprintf(&b, "line %d: %q\n", st.Line, st.Text)
		}
		if err != nil {
			fmt.Fprintf(&b, "error: %v\n", err)
		}
		if st, ok, err := s.Rest(); err != nil {
			fmt.Fprintf(&b, "rest: %v\n", err)
		} else if ok {
			fmt.Fprintf(&b, "rest: line %d: %q\n", st.Line, st.Text)
		}
		return b.String()
	})
}

// TestTooLong checks that a statement without an end uses limited memory.
func TestTooLong(t *testing.T) {
	var s statement.Splitter
	line := strings.Repeat("x ", 1<<19)
	for range 64 {
		if _, err := s.Add(line); err != nil {
			if s.Pending() {
				t.Error("the statement is kept")
			}
			return
		}
	}
	t.Error("64 MiB were taken")
}

// FuzzSplit checks that the splitter terminates for every text and neither loses nor adds tokens. Statements must
// consist of tokens of the input in their order. The result must be the same if the statements are added one by one.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"SELECT 1; SELECT 'a;''b'", "BEGIN BATCH\nINSERT;\nAPPLY BATCH;",
		"a -- ;\n;b /* ; \n */;", "$$;$$;\"\"\";\";", "HELP\nx;", "EXPLAIN BEGIN TRANSACTION a; COMMIT TRANSACTION;",
		"''''", "/*/", "--", "\xff;$"} {
		f.Add(s)
	}
	words := func(text string) (out []string) {
		tokens, _ := statement.Tokens(text)
		for _, k := range tokens {
			if w := text[k.Begin:k.End]; w != ";" {
				out = append(out, w)
			}
		}
		return out
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ReplaceAll(text, "\r", " ")
		all, s, err := split(text)
		if err != nil {
			return
		}
		var got []string
		line := 0
		for _, st := range all {
			got = append(got, words(st.Text)...)
			if st.Line < line || st.Text == "" {
				t.Fatalf("statement %+v after line %d", st, line)
			}
			line = st.Line
			again, s, err := split(st.Text + ";")
			if err != nil || len(again) == 0 || s.Pending() {
				t.Fatalf("%q alone: %+v, pending %v, %v", st.Text, again, s.Pending(), err)
			}
		}
		rest, ok, err := s.Rest()
		if err != nil {
			return
		}
		if ok {
			got = append(got, words(rest.Text)...)
		}
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		if want := words(text); !slices.Equal(got, want) {
			t.Fatalf("%q: tokens %q, of the whole %q", text, got, want)
		}
	})
}
