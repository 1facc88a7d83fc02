// SPDX-License-Identifier: Apache-2.0

// Package statement splits input into statements.
//
// A statement ends at a semicolon outside of strings, quoted names, and comments. BEGIN BATCH and BEGIN TRANSACTION end
// at the semicolon after APPLY BATCH or COMMIT TRANSACTION. A shell command also ends with its line. The package does
// not implement the rest of the grammar. Start reading at Splitter.
package statement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SizeMax is the maximum length of a statement, in bytes.
const SizeMax = 16 << 20

// Statement is one statement or command of an input.
type Statement struct {
	// Text is the text from the first to the last token, without the final semicolon. Text includes comments between
	// them.
	Text string
	// Line is the line of the input, from 1, in which the statement starts.
	Line int
}

// Splitter splits an input line by line. The zero value is a splitter at the start of the input. If the input contains
// commands, IsCommand must be set.
type Splitter struct {
	// IsCommand reports whether a word, in upper case, starts a command. A command ends with its line.
	IsCommand func(word string) bool

	lines int // number of added lines
	buf   []byte
	scan  scanner
	// The following fields are the state of the current statement: the number of tokens, its start and end, its first
	// line, its first words, and whether the last two words end a block.
	tokens     int
	begin, end int
	line       int
	first      [3]string
	last       [2]string
}

// Add adds a line of the input, with or without its line end, and returns the statements that end in it. Add returns
// an error if a statement is too long, and then discards that statement.
func (s *Splitter) Add(line string) ([]Statement, error) {
	s.lines++
	s.buf = append(append(s.buf, strings.TrimSuffix(line, "\n")...), '\n')
	var out []Statement
	for {
		t, ok := s.scan.next(s.buf)
		if !ok {
			break
		}
		if s.tokens > 0 || string(s.buf[t.Begin:t.End]) != ";" {
			if s.take(t) {
				out = append(out, s.cut())
			}
		}
	}
	if s.tokens > 0 && s.scan.in == inNothing && s.isCommand() {
		out = append(out, s.cut())
	}
	if s.tokens == 0 && s.scan.in == inNothing {
		s.reset()
	}
	if len(s.buf) > SizeMax {
		line := s.line
		s.Reset()
		return out, fmt.Errorf("the statement on line %d exceeds %d MiB", line, SizeMax>>20)
	}
	return out, nil
}

// take adds a token to the statement, and reports whether the statement ends with it.
func (s *Splitter) take(t Token) bool {
	text := string(s.buf[t.Begin:min(t.End, t.Begin+32)])
	if text == ";" && !s.inBlock() {
		return true
	}
	if s.tokens == 0 {
		s.begin = t.Begin
		s.line = s.lines - strings.Count(string(s.buf[t.Begin:]), "\n") + 1
	}
	word := ""
	if t.Kind == Word || text == "?" {
		word = strings.ToUpper(text)
	}
	if s.tokens < len(s.first) {
		s.first[s.tokens] = word
	}
	s.last = [2]string{s.last[1], word}
	s.tokens++
	s.end = t.End
	return false
}

// inBlock reports whether a semicolon is part of the statement.
func (s *Splitter) inBlock() bool {
	words := s.first[:]
	if words[0] == "EXPLAIN" {
		words = words[1:]
	}
	if words[0] != "BEGIN" {
		return false
	}
	switch words[1] {
	case "BATCH", "UNLOGGED", "LOGGED", "COUNTER":
		return s.last != [2]string{"APPLY", "BATCH"}
	case "TRANSACTION":
		return s.last != [2]string{"COMMIT", "TRANSACTION"}
	}
	return false
}

func (s *Splitter) isCommand() bool {
	return s.IsCommand != nil && s.first[0] != "" && s.IsCommand(s.first[0])
}

// cut ends the statement.
func (s *Splitter) cut() Statement {
	out := Statement{Text: string(s.buf[s.begin:s.end]), Line: s.line}
	s.buf = append(s.buf[:0], s.buf[s.scan.pos:]...)
	s.scan.pos = 0
	s.tokens, s.first, s.last = 0, [3]string{}, [2]string{}
	return out
}

func (s *Splitter) reset() {
	s.buf, s.scan = s.buf[:0], scanner{}
	s.tokens, s.first, s.last = 0, [3]string{}, [2]string{}
}

// Pending reports whether a statement is incomplete.
func (s *Splitter) Pending() bool { return s.tokens > 0 || s.scan.in != inNothing }

// Text returns the input since the end of the last statement, with line ends.
func (s *Splitter) Text() string { return string(s.buf) }

// Reset discards the incomplete statement.
func (s *Splitter) Reset() { s.reset() }

// Rest returns the incomplete statement at the end of the input. ok is false if there is no incomplete statement. The
// error describes an unterminated construct.
func (s *Splitter) Rest() (st Statement, ok bool, err error) {
	if name := s.scan.in.name(); name != "" {
		return st, false, fmt.Errorf("unexpected end of input in %s", name)
	}
	if s.tokens == 0 {
		return st, false, nil
	}
	if s.inBlock() {
		if slices.Contains(s.first[:], "TRANSACTION") {
			return st, false, errors.New("unexpected end of input in a transaction: expected COMMIT TRANSACTION")
		}
		return st, false, errors.New("unexpected end of input in a batch: expected APPLY BATCH")
	}
	return s.cut(), true, nil
}
