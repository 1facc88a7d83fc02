// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/shell/display"
	"github.com/ilion-db/ilion/internal/tool/shell/statement"
)

// execute executes one statement or command.
func (s *Shell) execute(ctx context.Context, text string) error {
	words := wordsOf(text)
	if c, ok := s.commands[strings.ToUpper(words[0])]; ok && c.run != nil {
		return c.run(s, ctx, words[1:])
	}
	return s.statement(ctx, text, strings.ToUpper(words[0]))
}

// wordsOf returns the tokens of a text. The text must contain at least one token.
func wordsOf(text string) (words []string) {
	tokens, _ := statement.Tokens(text)
	for _, t := range tokens {
		words = append(words, text[t.Begin:t.End])
	}
	return words
}

// statement executes a statement on the server. It prints the result page by page.
func (s *Shell) statement(ctx context.Context, text, verb string) error {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency, q.Serial, q.HasSerial = s.consistency, s.serial, true
	q.PageSize = pageRows
	if s.pages() {
		q.PageSize = int32(s.paging)
	}
	var rows *display.Rows
	var traceID *[16]byte
	for traced := s.tracing; ; traced = false {
		r, err := s.ask(ctx, &q, traced)
		if err != nil {
			return pointed(text, err)
		}
		for _, w := range s.conn.Warnings {
			fmt.Fprintln(s.o.Err, "Warning: "+w)
		}
		if s.conn.HasTrace {
			id := s.conn.TraceID
			traceID = &id
		}
		switch r.Kind {
		case cqlwire.ResultSetKeyspace:
			s.keyspace = r.Keyspace
		case cqlwire.ResultSchemaChange:
			s.schema.stale()
		case cqlwire.ResultRows:
			if rows, err = s.page(rows, r, verb); err != nil {
				return err
			}
		}
		if r.PagingState == nil || s.pages() && !s.wantsMore() {
			break
		}
		q.PagingState = bytes.Clone(r.PagingState)
	}
	if rows != nil && !s.describes(verb) {
		if err := rows.End(); err != nil {
			return err
		}
	}
	if traceID == nil {
		return nil
	}
	return s.showSession(ctx, cqltype.Native(cqltype.UUID).Text(traceID[:]))
}

// page prints a page of a result. rows is nil for the first page.
func (s *Shell) page(rows *display.Rows, r *cqlwire.Result, verb string) (*display.Rows, error) {
	first := rows == nil
	if first {
		rows = display.NewRows(s.o.Out, s.o.Format, s.o.Color, r.Columns)
	}
	if s.describes(verb) {
		return rows, s.describe(r, first)
	}
	return rows, rows.Page(r)
}

// pages reports whether output is paged for an interactive user.
func (s *Shell) pages() bool { return s.editor != nil && s.paging > 0 && s.sources == 0 }

// wantsMore asks the user whether the shell must print the next page.
func (s *Shell) wantsMore() bool {
	answer, err := s.editor.Line("--MORE-- (Enter: the next page, q: no more) ")
	return err == nil && strings.TrimSpace(answer) == ""
}

// The trace of a request becomes available after the response. traceLooks is the number of times that the shell polls
// for the trace. tracePause is the pause between two polls.
const (
	traceLooks = 100
	tracePause = 20 * time.Millisecond
)

// showSession prints the trace with the given ID.
func (s *Shell) showSession(ctx context.Context, text string) error {
	if _, ok := cqltype.ParseUUID(text); !ok {
		return fmt.Errorf("invalid trace ID %s", text)
	}
	fmt.Fprintf(s.o.Err, "\nTracing session: %s\n", text)
	micros, coordinator := "", ""
	for range traceLooks {
		r, err := s.query(ctx, "SELECT duration, coordinator FROM system_traces.sessions WHERE session_id = "+text)
		if err != nil {
			return err
		}
		if cells := texts(r); len(cells) == 1 && cells[0][0] != "" {
			micros, coordinator = cells[0][0], cells[0][1]
			break
		}
		select {
		case <-ctx.Done():
			return errCanceled
		case <-time.After(tracePause):
		}
	}
	r, err := s.query(ctx, "SELECT activity, source, source_elapsed FROM system_traces.events WHERE session_id = "+text)
	if err != nil {
		return err
	}
	if err := display.NewRows(s.o.Err, display.Table, s.o.Color, r.Columns).Page(r); err != nil {
		return err
	}
	if micros == "" {
		_, err = fmt.Fprintln(s.o.Err, "\nThe trace is not complete: SHOW SESSION "+text+" shows the later events.")
		return err
	}
	_, err = fmt.Fprintf(s.o.Err, "\nRequest complete after %s us at %s\n", micros, coordinator)
	return err
}

// texts returns the cells of a result as texts. Null becomes "".
func texts(r *cqlwire.Result) (rows [][]string) {
	cells := r.Cells
	for range r.RowCount {
		row := make([]string, r.ColumnCount)
		for i := range row {
			var v []byte
			var ok bool
			if v, cells, ok = cqlwire.NextCell(cells); !ok {
				return rows
			}
			if v != nil && i < len(r.Columns) {
				row[i] = r.Columns[i].Type.Text(v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// describes reports whether a result is a description for people.
func (s *Shell) describes(verb string) bool {
	return (verb == "DESCRIBE" || verb == "DESC") && s.o.Format == display.Table
}

// describe prints a description. It prints statements unchanged, lists of names by keyspace, and other results with
// one line per column.
func (s *Shell) describe(r *cqlwire.Result, first bool) error {
	at := map[string]int{}
	for i, c := range r.Columns {
		at[c.Name] = i
	}
	_, isStatement := at["create_statement"]
	_, isName := at["name"]
	rows := texts(r)
	var b strings.Builder
	switch {
	case isStatement:
		for i, row := range rows {
			if i > 0 || !first {
				b.WriteByte('\n')
			}
			b.WriteString(row[at["create_statement"]] + "\n")
		}
	case isName:
		describeNames(&b, rows, at)
	default:
		for _, row := range rows {
			for i, c := range r.Columns {
				fmt.Fprintf(&b, "%s: %s\n", c.Name, row[i])
			}
		}
	}
	_, err := io.WriteString(s.o.Out, b.String())
	return err
}

func describeNames(b *strings.Builder, rows [][]string, at map[string]int) {
	keyspace := ""
	for _, row := range rows {
		name := row[at["name"]]
		if row[at["type"]] != "keyspace" && row[at["keyspace_name"]] != keyspace {
			if keyspace != "" {
				b.WriteByte('\n')
			}
			keyspace = row[at["keyspace_name"]]
			title := "Keyspace " + keyspace
			b.WriteString(title + "\n" + strings.Repeat("-", len(title)) + "\n")
		}
		b.WriteString(name + "\n")
	}
}
