// SPDX-License-Identifier: Apache-2.0

// Package shell is the CQL shell: it reads statements and commands, from a terminal or a file, has a server carry them
// out, and writes what it answers.
//
// Any server of CQL will do; only EXPLAIN is Ilion's own. A shell has one connection, which is opened anew where it was
// lost; a statement whose connection is lost while it runs is never sent again, as nobody knows what became of it.
// Start at Shell.Run for files and at Shell.Interact for people. A Shell is for one goroutine.
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
	// pageRows is how many rows are asked for at once, and pageRowsTerminal where people read them page by page.
	pageRows         = 1000
	pageRowsTerminal = 100
	// connectWait bounds how long a connection may take.
	connectWait = 10 * time.Second
)

// Options describe a shell.
type Options struct {
	// Addr is the server, host:port.
	Addr string
	// Client is how to connect. Its Timeout bounds each request.
	Client rawclient.Options
	// Keyspace is the one in use at first, "" for none.
	Keyspace string
	// Consistency is the level of statements.
	Consistency dberr.Consistency
	// Format is how rows are written; "" means display.Table.
	Format display.Format
	// Color has output coloured that people read.
	Color bool
	// Out takes answers, Err warnings and traces.
	Out, Err io.Writer
}

// Shell is a session with a server.
type Shell struct {
	o           Options
	conn        *rawclient.Conn // nil when it was lost
	keyspace    string
	consistency dberr.Consistency
	serial      dberr.Consistency
	tracing     bool
	paging      int    // rows of a page that waits for its reader; 0 for none
	editor      Editor // nil when nobody is there to be asked
	pending     *statement.Splitter
	sources     int // files that are being read, one by the other
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

// Close ends the connection.
func (s *Shell) Close() error {
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

func (s *Shell) newSplitter() *statement.Splitter { return &statement.Splitter{IsCommand: s.isCommand} }

// connect opens the connection, and takes up the keyspace.
func (s *Shell) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	conn, err := rawclient.Dial(ctx, s.o.Addr, s.o.Client)
	if errors.Is(err, io.EOF) && s.o.Client.TLS == nil {
		return fmt.Errorf("%w: the server may want TLS", err)
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

// errCanceled is the end of what was cancelled by hand.
var errCanceled = errors.New("cancelled: if the statement writes, it may take effect all the same")

// ask sends a query, and waits for its answer unless the context ends before. CQL cannot take a request back, so the
// connection is given up then.
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
		return nil, fmt.Errorf("the connection is lost, what became of the statement is not known: %w", err)
	}
	return r, err
}

// query is ask for what the shell itself wants to know: all rows at once, at consistency ONE.
func (s *Shell) query(ctx context.Context, text string) (*cqlwire.Result, error) {
	q := cqlwire.Query{Text: []byte(text)}
	q.Consistency = dberr.One
	return s.ask(ctx, &q, false)
}

// Run carries out what a reader has, which is called name in errors, to its end or the first error. EXIT ends it, too.
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
		if err != nil && err != io.EOF {
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
		if err == io.EOF {
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

// readLine reads to the end of a line, which may be as long as a statement.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		if err != bufio.ErrBufferFull || len(line) > statement.SizeMax {
			if err == bufio.ErrBufferFull {
				err = nil // too long: the splitter says so
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

// within says which input an error is about.
func within(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// located says where an input went wrong.
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
