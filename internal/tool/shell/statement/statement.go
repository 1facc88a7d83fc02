// SPDX-License-Identifier: Apache-2.0

// Package statement cuts what is typed, or read from a file, into statements.
//
// A statement ends at a semicolon that stands in no string, quoted name or comment; BEGIN BATCH and BEGIN TRANSACTION
// at the one after APPLY BATCH or COMMIT TRANSACTION. A command of the shell ends with its line, too. The package knows
// nothing else of the grammar. Start at Splitter.
package statement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// SizeMax is the length of the longest statement, in bytes.
const SizeMax = 16 << 20

// Statement is one statement or command of an input.
type Statement struct {
	// Text is from its first to its last token, without the semicolon that ends it. Comments within stay.
	Text string
	// Line is that of the input, from 1, in which it begins.
	Line int
}

// Splitter cuts an input line by line. Its zero value, with IsCommand set if there are commands, is at the beginning.
type Splitter struct {
	// IsCommand reports whether a first word, in upper case, is that of a command, which ends with its line.
	IsCommand func(word string) bool

	lines int // lines that were added
	buf   []byte
	scan  scanner
	// Of the statement that has begun: its tokens so far, where it begins and ends, the line it begins in, its first
	// words, and whether the last two are words that end a block.
	tokens     int
	begin, end int
	line       int
	first      [3]string
	last       [2]string
}

// Add takes one more line of the input, with or without its end, and returns the statements that end in it. An error
// says that a statement is too long; nothing of it is kept.
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
		return out, fmt.Errorf("the statement of line %d is longer than %d MiB", line, SizeMax>>20)
	}
	return out, nil
}

// take adds a token to the statement, and reports whether it ends there.
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

// Pending reports whether something has begun and not ended.
func (s *Splitter) Pending() bool { return s.tokens > 0 || s.scan.in != inNothing }

// Text is what was added since the last statement ended, with line ends.
func (s *Splitter) Text() string { return string(s.buf) }

// Reset forgets what has begun.
func (s *Splitter) Reset() { s.reset() }

// Rest returns what has begun at the end of the input; ok is false if that is nothing. An error says what does not end.
func (s *Splitter) Rest() (st Statement, ok bool, err error) {
	if name := s.scan.in.name(); name != "" {
		return st, false, fmt.Errorf("the input ends within %s", name)
	}
	if s.tokens == 0 {
		return st, false, nil
	}
	if s.inBlock() {
		if slices.Contains(s.first[:], "TRANSACTION") {
			return st, false, errors.New("the input ends within a transaction: COMMIT TRANSACTION is missing")
		}
		return st, false, errors.New("the input ends within a batch: APPLY BATCH is missing")
	}
	return s.cut(), true, nil
}
