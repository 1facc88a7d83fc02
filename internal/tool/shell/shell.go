// SPDX-License-Identifier: Apache-2.0

// Package shell is the CQL shell. It reads statements and commands from a terminal or a file, executes them on a
// server, and prints the results.
//
// The shell works with any CQL server. Only EXPLAIN is specific to Ilion. A shell has one connection and reconnects
// when the connection is lost. If a statement was running when the connection was lost, it is never sent again,
// because its outcome is unknown. Start reading at Shell.Run for files and at Shell.Interact for interactive use. A
// Shell is not safe for concurrent use.
package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
	"github.com/ilion-db/ilion/internal/tool/shell/display"
	"github.com/ilion-db/ilion/internal/tool/shell/statement"
)

const (
	// pageRows is the number of rows per request. pageRowsTerminal is the number of rows for paged output on a
	// terminal.
	pageRows         = 1000
	pageRowsTerminal = 100
	// connectWait is the timeout for connecting.
	connectWait = 10 * time.Second
)

// Options configures a shell.
type Options struct {
	// Addr is the address of the server in the form host:port.
	Addr string
	// Client holds the connection options. Its Timeout applies to each request.
	Client rawclient.Options
	// Keyspace is the initial keyspace. It may be "".
	Keyspace string
	// Consistency is the consistency level of statements.
	Consistency dberr.Consistency
	// Format is the output format. The value "" selects display.Table.
	Format display.Format
	// Color enables colors in formats for people.
	Color bool
	// Out receives results. Err receives warnings and traces.
	Out, Err io.Writer
}

// Shell is a session with a server.
type Shell struct {
	o           Options
	conn        *rawclient.Conn // nil if the connection is lost
	keyspace    string
	consistency dberr.Consistency
	serial      dberr.Consistency
	tracing     bool
	paging      int    // number of rows per page for paged output; 0 disables paging
	editor      Editor // nil if the shell is not interactive
	pending     *statement.Splitter
	sources     int // nesting depth of SOURCE files
	schema      schemaCache
	commands    map[string]command
}

// New connects to a server.
func New(ctx context.Context, o Options) (*Shell, error) {
	if o.Format == "" {
		o.Format = display.Table
	}
	s := &Shell{o: o, keyspace: o.Keyspace, consistency: o.Consistency, serial: dberr.Serial,
		commands: newCommands()}
	s.pending = s.newSplitter()
	return s, s.connect(ctx)
}

// Close closes the connection.
func (s *Shell) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

func (s *Shell) newSplitter() *statement.Splitter { return &statement.Splitter{IsCommand: s.isCommand} }

// connect opens the connection and selects the keyspace.
func (s *Shell) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	conn, err := rawclient.Dial(ctx, s.o.Addr, s.o.Client)
	if errors.Is(err, io.EOF) && s.o.Client.TLS == nil {
		return fmt.Errorf("%w. The server may require TLS", err)
	}
	if err != nil {
		return err
	}
	if s.keyspace != "" {
		if _, err := conn.Query("USE " + cqltype.QuoteName(s.keyspace)); err != nil {
			_ = conn.Close()
			return err
		}
	}
	s.conn = conn
	return nil
}

// errCanceled reports that the user canceled a statement.
var errCanceled = errors.New("canceled: a write may still take effect")

// ask sends a query and waits for its response or the end of the context. If the context ends first, ask closes the
// connection, because CQL cannot cancel a request.
func (s *Shell) ask(ctx context.Context, q *cqlwire.Query, traced bool) (*cqlwire.Result, error) {
	if s.conn == nil {
		if err := s.connect(ctx); err != nil {
			return nil, err
		}
	}
	conn := s.conn
	release := context.AfterFunc(ctx, func() { _ = conn.Close() })
	r, err := conn.Run(q, traced)
	if !release() {
		s.conn = nil
		return nil, errCanceled
	}
	if refused := (*cqlwire.Error)(nil); err != nil && !errors.As(err, &refused) {
		_ = conn.Close()
		s.conn = nil
		return nil, fmt.Errorf("connection lost; the outcome of the statement is unknown: %w", err)
	}
	return r, err
}

// query executes an internal query of the shell at consistency level ONE. The response contains all rows.
func (s *Shell) query(ctx context.Context, text string) (*cqlwire.Result, error) {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency = dberr.One
	return s.ask(ctx, &q, false)
}

// Run executes the input of a reader until the end of the input or the first error. EXIT also ends the execution.
// Errors contain name.
func (s *Shell) Run(ctx context.Context, in io.Reader, name string) error {
	err := s.source(ctx, in, name)
	if errors.Is(err, errExit) {
		return nil
	}
	return err
}

func (s *Shell) source(ctx context.Context, in io.Reader, name string) error {
	split := s.newSplitter()
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return within(name, err)
		}
		if line != "" {
			all, tooLong := split.Add(line)
			if tooLong != nil {
				return within(name, tooLong)
			}
			if err := s.runAll(ctx, all, name); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
	}
	last, ok, err := split.Rest()
	if err != nil {
		return within(name, err)
	}
	if !ok {
		return nil
	}
	return s.runAll(ctx, []statement.Statement{last}, name)
}

// readLine reads to the end of a line. The line may be as long as a statement.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		full := errors.Is(err, bufio.ErrBufferFull)
		if !full || len(line) > statement.SizeMax {
			if full {
				err = nil // the statement is too long, so the splitter returns the error
			}
			return string(line), err
		}
	}
}

func (s *Shell) runAll(ctx context.Context, all []statement.Statement, name string) error {
	for _, st := range all {
		if err := s.execute(ctx, st.Text); err != nil {
			return s.located(err, st, name)
		}
	}
	return nil
}

// within adds the name of the input to an error.
func within(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// located adds the position in the input to an error.
func (s *Shell) located(err error, st statement.Statement, name string) error {
	if errors.Is(err, errExit) || name == "" {
		return err
	}
	line := st.Line
	if r := (*refusal)(nil); errors.As(err, &r) && s.sources == 0 {
		line += r.line
	}
	return fmt.Errorf("%s:%d: %w", name, line, err)
}
