// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/tool/shell/completion"
	"github.com/ilion-db/ilion/internal/tool/shell/statement"
)

// Editor reads input from an interactive user.
type Editor interface {
	// Line reads a line. It returns ErrInterrupted for Ctrl-C and io.EOF for Ctrl-D.
	Line(prompt string) (string, error)
	// Secret reads a line without displaying it.
	Secret(prompt string) (string, error)
	// Remember adds a line to the history.
	Remember(line string)
}

// ErrInterrupted is the error of Editor.Line if the user cancels the input.
var ErrInterrupted = errors.New("interrupted")

// Interact executes input from an interactive user until the input ends. Errors of statements are printed and do not
// end the shell.
func (s *Shell) Interact(ctx context.Context, e Editor) error {
	s.editor, s.paging = e, pageRowsTerminal
	defer func() { s.editor = nil }()
	about, err := s.server(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.o.Out, "Connected: %s.\nHELP lists the commands, Tab completes, Ctrl-D exits.\n", about)
	typed := ""
	for {
		line, err := e.Line(s.prompt())
		switch {
		case errors.Is(err, ErrInterrupted):
			s.pending.Reset()
			typed = ""
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(s.o.Out)
			return nil
		case err != nil:
			return err
		}
		typed += line + "\n"
		all, err := s.pending.Add(line)
		if err != nil {
			s.complain(err)
		}
		if !s.pending.Pending() {
			s.remember(typed)
			typed = ""
		}
		if err := s.interactAll(ctx, all); errors.Is(err, errExit) {
			return nil
		}
	}
}

// interactAll executes the statements of one line until the first error. Ctrl-C cancels the running statement.
func (s *Shell) interactAll(ctx context.Context, all []statement.Statement) error {
	for _, st := range all {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
		err := s.execute(ctx, st.Text)
		stop()
		if err != nil {
			if !errors.Is(err, errExit) {
				s.complain(err)
			}
			return err
		}
	}
	return nil
}

// prompt returns the prompt with the keyspace. Within a statement, it returns the prompt for a continuation line.
func (s *Shell) prompt() string {
	name := "ilion"
	if s.keyspace != "" && len(s.keyspace) <= 24 {
		name += ":" + clean(s.keyspace)
	}
	if s.pending.Pending() {
		return strings.Repeat(" ", max(0, len(name)-3)) + "... "
	}
	return name + "> "
}

// complain prints an error for an interactive user.
func (s *Shell) complain(err error) {
	text := err.Error()
	if s.o.Color {
		text = "\x1b[31m" + text + "\x1b[0m"
	}
	fmt.Fprintln(s.o.Err, text)
}

// remember saves the input in the history as one line. Input that may contain a password is not saved. Input that
// contains a multi-line string cannot be one line, so it is saved line by line.
func (s *Shell) remember(typed string) {
	typed = strings.TrimSpace(typed)
	if typed == "" || isSecret(typed) {
		return
	}
	line, ok := oneLine(typed)
	if ok {
		s.editor.Remember(line)
		return
	}
	for line := range strings.Lines(typed) {
		if line = strings.TrimSpace(line); line != "" {
			s.editor.Remember(line)
		}
	}
}

// oneLine joins lines. ok is false if this would change their meaning.
func oneLine(text string) (string, bool) {
	tokens, open := statement.Tokens(text)
	if open {
		return "", false
	}
	var b strings.Builder
	last := 0
	for _, t := range tokens {
		space, word := text[last:t.Begin], text[t.Begin:t.End]
		if strings.Contains(word, "\n") {
			return "", false
		}
		if strings.Contains(space, "\n") || strings.TrimSpace(space) != "" {
			space = " " // drop comments
		}
		b.WriteString(space + word)
		last = t.End
	}
	return strings.TrimSpace(b.String()), true
}

const (
	// schemaAge is the maximum age of the schema that is used for completion.
	schemaAge = 10 * time.Second
	// schemaWait is the maximum time for reading the schema.
	schemaWait = 3 * time.Second
	// schemaRows is the maximum number of table columns that are read.
	schemaRows = 50000
)

// schemaCache is a cached schema.
type schemaCache struct {
	schema completion.Schema
	until  time.Time
}

func (c *schemaCache) stale() { c.until = time.Time{} }

// Complete completes a line at a position. The position is in characters. The resulting line consists of head, one of
// the words, and tail.
func (s *Shell) Complete(line string, pos int) (head string, words []string, tail string) {
	runes := []rune(line)
	pos = min(pos, len(runes))
	before := string(runes[:pos])
	tail = string(runes[pos:])
	pending := s.pending.Text()
	start, words := completion.Complete(completion.Input{Before: pending + before, After: tail, Keyspace: s.keyspace,
		Schema: s.names(), Commands: s.commandWords()})
	if start < len(pending) {
		return before, nil, tail
	}
	if len(words) == 1 && !strings.HasSuffix(words[0], ".") && !strings.HasSuffix(words[0], "(") && tail == "" {
		words[0] += " "
	}
	return before[:start-len(pending)], words, tail
}

// names returns the schema. If the cached schema is too old, names reads the schema again. If this fails, names
// returns the cached schema.
func (s *Shell) names() completion.Schema {
	if time.Now().Before(s.schema.until) {
		return s.schema.schema
	}
	ctx, cancel := context.WithTimeout(context.Background(), schemaWait)
	defer cancel()
	fresh := completion.Schema{}
	keyspace := func(name string) *completion.Keyspace {
		if fresh[name] == nil {
			fresh[name] = &completion.Keyspace{Tables: map[string][]string{}}
		}
		return fresh[name]
	}
	for _, q := range []struct {
		text string
		take func(row []string)
	}{
		{"keyspace_name FROM system_schema.keyspaces", func(row []string) { keyspace(row[0]) }},
		{"keyspace_name, table_name, column_name FROM system_schema.columns", func(row []string) {
			tables := keyspace(row[0]).Tables
			tables[row[1]] = append(tables[row[1]], row[2])
		}},
		{"keyspace_name, table_name, column_name FROM system_virtual_schema.columns", func(row []string) {
			tables := keyspace(row[0]).Tables
			tables[row[1]] = append(tables[row[1]], row[2])
		}},
		{"keyspace_name, type_name FROM system_schema.types", func(row []string) {
			k := keyspace(row[0])
			k.Types = append(k.Types, row[1])
		}},
		{"keyspace_name, function_name FROM system_schema.functions", func(row []string) {
			k := keyspace(row[0])
			k.Functions = append(k.Functions, row[1])
		}},
		{"keyspace_name, aggregate_name FROM system_schema.aggregates", func(row []string) {
			k := keyspace(row[0])
			k.Functions = append(k.Functions, row[1])
		}},
	} {
		r, err := s.query(ctx, fmt.Sprintf("SELECT %s LIMIT %d", q.text, schemaRows))
		if err != nil {
			continue // some servers do not have all of these tables, and some users may not read them
		}
		for _, row := range texts(r) {
			q.take(row)
		}
	}
	if len(fresh) > 0 {
		s.schema = schemaCache{fresh, time.Now().Add(schemaAge)}
	}
	return s.schema.schema
}
