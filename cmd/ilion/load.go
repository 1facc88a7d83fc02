// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/ilion-db/ilion/internal/model/dberr"
	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/bulk/text"
	"github.com/ilion-db/ilion/internal/tool/rawclient"
)

// bulkClient holds the connection options of the bulk commands.
type bulkClient struct {
	Addr        []string `env:"ILION_CQL" default:"127.0.0.1:9042" placeholder:"HOST:PORT,..." help:"Nodes to connect to"`
	Connections int      `default:"8" help:"Number of connections (default ${default})"`
	Inflight    int      `default:"64" help:"Number of concurrent requests per connection (default ${default})"`
	Rate        int      `default:"0" placeholder:"ROWS" help:"Maximum number of rows per second; 0 means unlimited (default ${default})"`
	Retries     int      `default:"12" help:"Maximum number of retries of a rejected or timed-out request (default ${default})"`
	Consistency string   `default:"LOCAL_QUORUM" help:"Consistency level (default ${default})"`
	NoProgress  bool     `help:"Do not show progress"`
	credentials
	clientTLS
}

// client validates and converts the options.
func (c *bulkClient) client() (bulk.Client, error) {
	none := bulk.Client{}
	level, ok := dberr.ParseConsistency(c.Consistency)
	if !ok {
		return none, &usageError{fmt.Sprintf("unknown consistency level %q", c.Consistency)}
	}
	if c.Connections < 1 || c.Connections > 1024 || c.Inflight < 1 || c.Inflight > 32000 || c.Retries < 0 ||
		c.Rate < 0 {
		return none, &usageError{"option out of range: use --connections 1 to 1024, --inflight 1 to 32000, " +
			"--retries and --rate 0 or more"}
	}
	config, err := c.config()
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return none, err
	}
	return bulk.Client{Options: rawclient.Options{User: c.User, Password: c.Password, TLS: config}, Addrs: c.Addr,
		Connections: c.Connections, InFlight: c.Inflight, Retries: c.Retries, Consistency: level}, nil
}

// progress returns the writer for progress messages.
func (c *bulkClient) progress() *bulk.Progress {
	if c.NoProgress {
		return &bulk.Progress{}
	}
	return &bulk.Progress{Out: os.Stderr, Terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

// rowFormat holds the options for the file format.
type rowFormat struct {
	Format    string   `enum:"csv,json,cqlsh" default:"csv" help:"File format: ${enum}; cqlsh means COPY TO (default ${default})"`
	Delimiter string   `default:"," help:"Field delimiter of CSV; the word tab means a tab character (default ${default})"`
	Quote     string   `default:"\"" help:"Quote character of CSV (default ${default})"`
	Escape    string   `default:"\"" help:"Escape character; a backslash for cqlsh files (default ${default})"`
	Null      string   `default:"" help:"Text that represents null (default: empty)"`
	Header    bool     `negatable:"" default:"true" help:"Treat the first record of each file as column names (default)"`
	Columns   []string `placeholder:"COLUMN,..." help:"Columns in file order (default: the columns of the header, otherwise all columns)"`
}

func (f *rowFormat) format() (bulk.Format, error) {
	one := func(s string) byte {
		if s == "tab" || s == `\t` {
			s = "\t"
		}
		if len(s) != 1 {
			return 0 // Dialect.Check rejects 0
		}
		return s[0]
	}
	format := bulk.Format{JSON: f.Format == "json", Header: f.Header, Dialect: text.Dialect{Delimiter: one(f.Delimiter),
		Quote: one(f.Quote), Escape: one(f.Escape), Null: f.Null}}
	if f.Format == "cqlsh" {
		format.Dialect.Escape, format.Dialect.Cqlsh = '\\', true
	}
	if err := format.Dialect.Check(); err != nil {
		return format, &usageError{err.Error()}
	}
	return format, nil
}

type loadCommand struct {
	Table       string   `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table to load; it must exist"`
	Paths       []string `arg:"" name:"path" placeholder:"PATH" help:"Files, directories, or - for standard input; may be compressed"`
	TTL         int      `placeholder:"SECONDS" help:"Time to live of the rows, in seconds"`
	Timestamp   int64    `placeholder:"MICROSECONDS" help:"Timestamp of the rows, in microseconds since 1970 (default: the server's clock)"`
	NullsDelete bool     `help:"Write nulls as deletions (default: a null does not change the stored value)"`
	Errors      string   `placeholder:"FILE" help:"File for rejected rows and their errors (default: ilion-load-KS.TABLE.errors)"`
	MaxErrors   int64    `default:"100" help:"Maximum number of rejected rows; -1 means unlimited (default ${default})"`
	Checkpoint  string   `placeholder:"FILE" help:"File that records progress, for resuming (default: ilion-load-KS.TABLE.checkpoint)"`
	Restart     bool     `help:"Ignore the checkpoint and start over"`
	DryRun      bool     `help:"Parse and check all rows without writing them"`
	rowFormat
	bulkClient
}

// Run loads files.
func (c *loadCommand) Run(out io.Writer) error {
	name, client, format, err := bulkTarget(c.Table, &c.bulkClient, &c.rowFormat)
	if err != nil {
		return err
	}
	if c.TTL < 0 || c.Timestamp < 0 || c.MaxErrors < -1 {
		return &usageError{"option out of range: expected --ttl and --timestamp of at least 0, and --max-errors of " +
			"at least -1"}
	}
	for file, ending := range map[*string]string{&c.Errors: ".errors", &c.Checkpoint: ".checkpoint"} {
		if *file == "" {
			*file = "ilion-load-" + name.Keyspace + "." + name.Table + ending
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rep, err := bulk.Load(ctx, bulk.LoadOptions{Client: client, Table: name, Paths: c.Paths, Stdin: os.Stdin,
		Format: format, Columns: c.Columns, TTL: c.TTL, Timestamp: c.Timestamp, NullsDelete: c.NullsDelete,
		Rate: c.Rate, Checkpoint: c.Checkpoint, Errors: c.Errors, Restart: c.Restart,
		MaxErrors: c.MaxErrors, DryRun: c.DryRun,
		Progress: c.progress(), Notice: os.Stderr})
	if rep != nil {
		what := "loaded"
		if c.DryRun {
			what = "could be loaded"
		}
		fmt.Fprintf(out, "%d rows %s, %d rejected", rep.Loaded, what, rep.Rejected)
		if rep.Resumed {
			fmt.Fprintf(out, " (%d of them in this run)", rep.Rows)
		}
		fmt.Fprintf(out, " in %.1f s, %.0f rows/s\n", rep.Took.Seconds(), float64(rep.Rows)/rep.Took.Seconds())
		if rep.Rejected > 0 {
			fmt.Fprintf(os.Stderr, "ilion: see %s for the rejected rows and their errors\n", c.Errors)
		}
	}
	if err == nil && rep.Rejected > 0 {
		err = fmt.Errorf("%d rows were rejected", rep.Rejected)
	}
	return err
}

// bulkTarget validates the options that load and unload share.
func bulkTarget(table string, c *bulkClient, f *rowFormat) (bulk.Name, bulk.Client, bulk.Format, error) {
	client, err := c.client()
	if err != nil {
		return bulk.Name{}, client, bulk.Format{}, err
	}
	format, err := f.format()
	if err != nil || table == "" {
		return bulk.Name{}, client, format, err
	}
	name, err := bulk.ParseName(table)
	if err != nil {
		err = &usageError{err.Error()}
	}
	return name, client, format, err
}

type unloadCommand struct {
	Table       string `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table to export, or - with --query"`
	Path        string `arg:"" optional:"" default:"-" placeholder:"PATH" help:"File, - for standard output, or DIR/ for many files"`
	Query       string `placeholder:"SELECT" help:"Export the result of a query instead of a table"`
	Compression string `enum:"none,gzip,zstd," default:"" help:"Compression: none, gzip, or zstd (default: from the file name extension)"`
	Ranges      int    `default:"64" help:"Number of token ranges to export separately, 1 to 65536 (default ${default})"`
	Restart     bool   `help:"Overwrite the files in the directory"`
	rowFormat
	bulkClient
}

// Run exports a table or a query result.
func (c *unloadCommand) Run(out io.Writer) error {
	if (c.Table == "-") != (c.Query != "") {
		return &usageError{"missing source: specify KEYSPACE.TABLE, or - with --query"}
	}
	if c.Format == "cqlsh" {
		return &usageError{"format cqlsh is supported for load only. To export for COPY FROM, use csv with --escape " +
			"'\\'"}
	}
	name, client, format, err := bulkTarget(strings.TrimPrefix(c.Table, "-"), &c.bulkClient, &c.rowFormat)
	if err != nil {
		return err
	}
	if c.Ranges < 1 || c.Ranges > 65536 {
		return &usageError{"invalid --ranges: expected a number from 1 to 65536"}
	}
	compression := bulk.Compression(c.Compression)
	if compression == "" {
		compression = bulk.CompressionOf(c.Path)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rep, err := bulk.Unload(ctx, bulk.UnloadOptions{Client: client, Table: name, Query: c.Query, Path: c.Path,
		Stdout: out, Format: format, Compression: compression, Columns: c.Columns, Ranges: c.Ranges, Rate: c.Rate,
		Restart: c.Restart, Progress: c.progress()})
	if rep != nil {
		fmt.Fprintf(os.Stderr, "%d rows exported in %.1f s", rep.Rows, rep.Took.Seconds())
		if rep.Skipped > 0 {
			fmt.Fprintf(os.Stderr, ", %d token ranges were already exported", rep.Skipped)
		}
		fmt.Fprintln(os.Stderr)
	}
	return err
}
