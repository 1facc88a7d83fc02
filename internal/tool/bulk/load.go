// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/server/cqlwire"
	"github.com/ilion-db/ilion/internal/tool/bulk/pipeline"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// Client configures the connections to a server.
type Client struct {
	rawclient.Options
	// Addrs holds the addresses of nodes. Connections are distributed among the nodes.
	Addrs []string
	// Up to Connections times InFlight requests are in flight. Retries is the maximum number of retries of a request.
	Connections, InFlight, Retries int
	Consistency                    dberr.Consistency
}

// LoadOptions configures a load. Load requires Client, Table, and Paths.
type LoadOptions struct {
	Client Client
	Table  Name
	// Paths lists files and directories. A path can also be Stdio.
	Paths  []string
	Stdin  io.Reader
	Format Format
	// Columns lists the columns of the CSV fields in order. The value nil selects the columns of the header, or all
	// columns of the table.
	Columns []string
	// TTL is the time to live in seconds. The value 0 means no time to live. Timestamp is in microseconds since 1970.
	// The value 0 selects the server's time.
	TTL       int
	Timestamp int64
	// NullsDelete writes nulls, which delete the stored values. Otherwise, a null does not change the stored value.
	NullsDelete bool
	// Rate is the maximum number of rows per second. The value 0 means unlimited.
	Rate int
	// Checkpoint and Errors are the paths of files. The value "" disables a file. Restart ignores an existing
	// checkpoint.
	Checkpoint, Errors string
	Restart            bool
	// MaxErrors is the maximum number of rejected rows. The value -1 means unlimited.
	MaxErrors int64
	// DryRun reads all rows but writes no rows.
	DryRun bool
	// Progress shows the progress. If Progress is nil, the display is disabled. Notice receives a line when the load
	// resumes.
	Progress *Progress
	Notice   io.Writer
}

// LoadReport is the result of a load. Loaded and Rejected include the rows of resumed loads.
type LoadReport struct {
	Loaded, Rejected, Again int64
	Resumed                 bool
	Took                    time.Duration
	// Rows is the number of rows loaded in this run.
	Rows int64
}

// load is a load in progress.
type load struct {
	o      *LoadOptions
	table  *Table
	pace   Pace
	ledger *ledger
	cancel context.CancelCauseFunc
	pipes  []*pipeline.Pipeline
}

// Load loads files into a table. If it returns an error, the report contains the progress.
func Load(ctx context.Context, o LoadOptions) (*LoadReport, error) {
	if err := o.Format.check(); err != nil {
		return nil, err
	}
	files, err := inputs(o.Paths, o.Format)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	for _, f := range files {
		if f.Path == Stdio {
			o.Checkpoint = "" // standard input cannot be read again
		}
		o.Progress.Total += f.Size
	}
	if o.DryRun {
		o.Checkpoint = ""
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &load{o: &o, pace: Pace{Rate: o.Rate}, cancel: cancel,
		ledger: &ledger{path: o.Checkpoint, errorPath: o.Errors, errorMax: o.MaxErrors, progress: o.Progress}}
	resumed, err := l.ledger.open(o.Table.String(), files, o.Restart)
	if err != nil {
		return nil, err
	}
	if resumed && o.Notice != nil {
		at := l.ledger.state.Position
		fmt.Fprintf(o.Notice, "resuming after line %d of %s\n", at.Line, files[at.File].Path)
	}
	defer l.close()
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	if l.table.Counters() && resumed && o.Notice != nil {
		fmt.Fprintln(o.Notice, "the table has counters: rows that were in flight when the load stopped are counted "+
			"twice")
	}
	return l.run(ctx, resumed, &source{files: files, format: o.Format, stdin: o.Stdin, from: l.ledger.state.Position})
}

func (l *load) close() {
	for _, p := range l.pipes {
		p.Close()
	}
}

func (f Format) check() error {
	if f.JSON {
		return nil
	}
	return f.Dialect.Check()
}

// connect opens the connections and reads the description of the table.
func (l *load) connect(ctx context.Context) error {
	c := &l.o.Client
	n := c.Connections
	for i := range n {
		p, err := pipeline.Open(ctx, c.Addrs[i%len(c.Addrs)], pipeline.Options{Options: c.Options, InFlight: c.InFlight,
			Retries: c.Retries, OnlyRefused: l.table != nil && l.table.Counters()})
		if err != nil {
			return err
		}
		l.pipes = append(l.pipes, p)
		if i > 0 {
			continue
		}
		if l.table, err = Describe(p.Conn(), l.o.Table); err != nil {
			return err
		}
		if l.table.Counters() {
			p.OnlyRefused()
		}
	}
	l.o.Progress.again = func() (sum int64) {
		for _, p := range l.pipes {
			sum += p.Again()
		}
		return sum
	}
	return nil
}

// run reads and writes rows, and reports the result.
func (l *load) run(ctx context.Context, resumed bool, s *source) (*LoadReport, error) {
	l.o.Progress.Start()
	blocks := make(chan *block)
	var wg sync.WaitGroup
	for _, p := range l.pipes {
		wg.Go(func() {
			w := &writer{load: l, pipe: p, ctx: ctx}
			if err := w.run(blocks); err != nil {
				l.cancel(err)
			}
		})
	}
	err := s.run(ctx, blocks)
	close(blocks)
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	took := l.o.Progress.Stop()
	err = errors.Join(err, l.ledger.close(err == nil))
	rep := &LoadReport{Loaded: l.ledger.state.Loaded, Rejected: l.ledger.state.Rejected, Resumed: resumed, Took: took,
		Again: l.o.Progress.again(), Rows: l.o.Progress.Rows.Load()}
	if err != nil && l.o.Checkpoint != "" && !errors.Is(err, errTooMany) {
		err = fmt.Errorf("%w. Run the same command again to resume", err)
	}
	return rep, err
}

// Rejected reports whether an error concerns a row. Other errors concern the server or the connection.
func Rejected(err error) bool {
	e, ok := errors.AsType[*cqlwire.Error](err)
	return ok && (e.Code == cqlwire.CodeInvalid || e.Code == cqlwire.CodeServer || e.Code == cqlwire.CodeConfig ||
		e.Code == cqlwire.CodeWriteFailure || e.Code == cqlwire.CodeFunctionFailure || e.Code == cqlwire.CodeProtocol)
}
