// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ilion-db/ilion/internal/server/cqlwire"
)

// UnloadOptions configures an export. Unload requires Client, Path, and Table or Query.
type UnloadOptions struct {
	Client Client
	Table  Name
	// Query, if set, is exported instead of a table. The export uses one connection.
	Query string
	// Path is a file, Stdio, or a directory. If the path is a directory or ends with a slash, the export writes one
	// file per token range.
	Path        string
	Stdout      io.Writer
	Format      Format
	Compression Compression
	// Columns lists the columns to export. If Columns is nil, all columns are exported.
	Columns []string
	// Ranges is the number of token ranges. It is between 1 and 65536.
	Ranges int
	// Rate is the maximum number of rows per second. The value 0 means unlimited.
	Rate int
	// Restart overwrites the files in a directory.
	Restart  bool
	Progress *Progress
}

// UnloadReport is the result of an export.
type UnloadReport struct {
	// Rows is the number of rows that this run has exported. Skipped is the number of token ranges that an earlier run
	// has exported.
	Rows    int64
	Skipped int
	Took    time.Duration
}

// unload is an export in progress.
type unload struct {
	o     *UnloadOptions
	table *Table // nil if a query is exported
	pace  Pace
	// one is the output file for all ranges. It is nil if the output is a directory.
	one *sink
}

// unloadState identifies an export to a directory.
type unloadState struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	Ranges  int      `json:"ranges"`
	Format  Format   `json:"format"`
}

// unloadCheckpoint is the name of a file that a directory contains until the export is complete.
const unloadCheckpoint = "unload.checkpoint"

// Unload writes the rows of a table or a query to files.
func Unload(ctx context.Context, o UnloadOptions) (*UnloadReport, error) {
	if err := o.Format.check(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	u := &unload{o: &o, pace: Pace{Rate: o.Rate}}
	ranges := []TokenRange{{}}
	if o.Query == "" {
		r := &Reader{Client: o.Client, Addr: o.Client.Addrs[0]}
		defer r.Close()
		c, err := r.Conn(ctx)
		if err != nil {
			return nil, err
		}
		if u.table, err = Describe(c, o.Table); err != nil {
			return nil, err
		}
		for _, name := range o.Columns {
			if _, ok := u.table.Column(name); !ok {
				return nil, fmt.Errorf("table %s has no column %s: its columns are %s", o.Table, name,
					QuoteAll(u.table.Names(nil)))
			}
		}
		if len(o.Columns) == 0 {
			o.Columns = u.table.Names(nil)
		}
		ranges = Ring(o.Ranges)
	}
	rep := &UnloadReport{}
	directory, err := u.open(len(ranges))
	if err != nil {
		return nil, err
	}
	o.Progress.Total = int64(len(ranges))
	o.Progress.Start()
	rep.Skipped, err = u.run(ctx, ranges)
	rep.Took, rep.Rows = o.Progress.Stop(), o.Progress.Rows.Load()
	if u.one != nil {
		err = u.one.end(err)
	}
	if err == nil && directory {
		err = os.Remove(filepath.Join(o.Path, unloadCheckpoint))
	} else if err != nil && directory {
		err = fmt.Errorf("%w. Run the same command again to resume", err)
	}
	return rep, err
}

// open creates the file or the directory, or reads the state of an earlier run.
func (u *unload) open(ranges int) (directory bool, err error) {
	o := u.o
	s, err := os.Stat(o.Path)
	directory = o.Path != Stdio && (err == nil && s.IsDir() || os.IsPathSeparator(o.Path[len(o.Path)-1]))
	if !directory {
		u.one, err = u.sink(o.Path)
		return false, err
	}
	if o.Query != "" {
		return true, errors.New("a query must be exported to a file instead of a directory")
	}
	if err := os.MkdirAll(o.Path, 0o755); err != nil {
		return true, err
	}
	state := unloadState{Table: o.Table.String(), Columns: o.Columns, Ranges: ranges, Format: o.Format}
	path := filepath.Join(o.Path, unloadCheckpoint)
	var old unloadState
	found, err := LoadJSON(path, &old)
	if err != nil {
		return true, err
	}
	whole, _ := filepath.Glob(u.file(0, "*"))
	switch {
	case o.Restart:
		for _, f := range whole {
			if err := os.Remove(f); err != nil {
				return true, err
			}
		}
	case found && fmt.Sprint(old) != fmt.Sprint(state):
		return true, fmt.Errorf("the export in %s was started with other options. Use --restart to start over", o.Path)
	case !found && len(whole) > 0:
		return true, fmt.Errorf("%s contains an export of %s. Specify another directory, or use --restart", o.Path,
			o.Table)
	}
	return true, SaveJSON(path, state)
}

// file returns the path of the file for a range. If number is not empty, it replaces the number of the range in the
// path.
func (u *unload) file(i int, number string) string {
	if number == "" {
		number = fmt.Sprintf("%05d", i+1)
	}
	ending := ".csv"
	if u.o.Format.JSON {
		ending = ".jsonl"
	}
	return filepath.Join(u.o.Path, u.o.Table.Keyspace+"."+u.o.Table.Table+"-"+number+ending+u.o.Compression.suffix())
}

// run exports ranges over all connections.
func (u *unload) run(ctx context.Context, ranges []TokenRange) (skipped int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var wg sync.WaitGroup
	for i := range min(u.o.Client.Connections, len(ranges)) {
		wg.Go(func() {
			r := &Reader{Client: u.o.Client, Addr: u.o.Client.Addrs[i%len(u.o.Client.Addrs)]}
			defer r.Close()
			for n := range work {
				if err := u.unloadRange(ctx, r, ranges[n], n); err != nil {
					cancel(err)
					return
				}
				u.o.Progress.Done.Add(1)
			}
		})
	}
	for n := range ranges {
		if u.one == nil {
			if _, err := os.Stat(u.file(n, "")); err == nil {
				skipped++
				u.o.Progress.Done.Add(1)
				continue
			}
		}
		select {
		case work <- n:
		case <-ctx.Done():
		}
	}
	close(work)
	wg.Wait()
	return skipped, context.Cause(ctx)
}

// unloadRange writes the rows of a range. It writes them to a separate file, unless all ranges share a single file.
func (u *unload) unloadRange(ctx context.Context, r *Reader, tokens TokenRange, n int) (err error) {
	s, query := u.one, u.o.Query
	if s == nil {
		if s, err = u.sink(u.file(n, "")); err != nil {
			return err
		}
		defer func() { err = s.end(err) }()
	}
	if u.table != nil {
		query = "SELECT " + QuoteAll(u.o.Columns) + " FROM " + u.table.Name.String() + tokens.Where(u.table)
	}
	e := encoder{format: u.o.Format}
	return r.Pages(ctx, query, func(page *cqlwire.Result) error {
		if page.Kind != cqlwire.ResultRows {
			return errors.New("the statement returns no rows. Use a SELECT statement")
		}
		text, err := e.page(page)
		if err != nil {
			return err
		}
		if err := s.write(e.header(page), text); err != nil {
			return err
		}
		u.o.Progress.Rows.Add(int64(page.RowCount))
		u.pace.Wait(ctx, page.RowCount)
		return nil
	})
}
