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

// bulkClient is how the tools that move rows reach a server.
type bulkClient struct {
	Addr        []string `env:"ILION_CQL" default:"127.0.0.1:9042" placeholder:"HOST:PORT,..." help:"Nodes to share the work."`
	Connections int      `default:"8" help:"Connections."`
	Inflight    int      `default:"64" help:"Requests in flight per connection."`
	Rate        int      `default:"0" placeholder:"ROWS" help:"Rows a second at most; 0: as many as the server takes."`
	Retries     int      `default:"12" help:"How often a request is sent again that the server refuses or has no time for."`
	Consistency string   `default:"LOCAL_QUORUM" help:"Consistency level."`
	NoProgress  bool     `help:"Do not show how far it is."`
	credentials
	clientTLS
}

// client checks the options and makes of them what the tools take.
func (c *bulkClient) client() (bulk.Client, error) {
	none := bulk.Client{}
	level, ok := dberr.ParseConsistency(c.Consistency)
	if !ok {
		return none, &usageError{fmt.Sprintf("unknown consistency level %q", c.Consistency)}
	}
	if c.Connections < 1 || c.Connections > 1024 || c.Inflight < 1 || c.Inflight > 32000 || c.Retries < 0 ||
		c.Rate < 0 {
		return none, &usageError{"--connections is 1 to 1024, --inflight 1 to 32000, --retries and --rate are 0 or more"}
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

// progress is what is shown of how far it is.
func (c *bulkClient) progress() *bulk.Progress {
	if c.NoProgress {
		return &bulk.Progress{}
	}
	return &bulk.Progress{Out: os.Stderr, Terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

// rowFormat is how rows stand in files.
type rowFormat struct {
	Format    string   `enum:"csv,json,cqlsh" default:"csv" help:"Of rows: ${enum}; json: an object a line, cqlsh: as COPY TO writes."`
	Delimiter string   `default:"," help:"Between fields of CSV; tab is the tabulator."`
	Quote     string   `default:"\"" help:"Around fields that need it."`
	Escape    string   `default:"\"" help:"Before a quote within quotes; a quote doubles it (RFC 4180), cqlsh writes a backslash."`
	Null      string   `default:"" help:"Text, without quotes, of null."`
	Header    bool     `negatable:"" default:"true" help:"The first record of each file names the columns."`
	Columns   []string `placeholder:"COLUMN,..." help:"Columns of the fields in order (default: the header's, else all)."`
}

func (f *rowFormat) format() (bulk.Format, error) {
	one := func(s string) byte {
		if s == "tab" || s == `\t` {
			s = "\t"
		}
		if len(s) != 1 {
			return 0 // which Dialect.Check refuses
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
	Table       string   `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table to load; it has to be there."`
	Paths       []string `arg:"" name:"path" placeholder:"PATH" help:"Files, directories, or - for stdin, compressed or not."`
	TTL         int      `placeholder:"SECONDS" help:"Time to live of what is written."`
	Timestamp   int64    `placeholder:"MICROSECONDS" help:"Timestamp of what is written, since 1970 (default: the server's clock)."`
	NullsDelete bool     `help:"Write nulls, which deletes what is there; else null leaves what is there alone."`
	Errors      string   `placeholder:"FILE" help:"Rows that are not loaded, and why (default: ilion-load-KS.TABLE.errors)."`
	MaxErrors   int64    `default:"100" help:"End when more rows than this are not loaded; -1: never."`
	Checkpoint  string   `placeholder:"FILE" help:"How far it is, for the next run (default: ilion-load-KS.TABLE.checkpoint)."`
	Restart     bool     `help:"Begin anew, whatever the checkpoint says."`
	DryRun      bool     `help:"Read and check everything, write nothing."`
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
		return &usageError{"--ttl and --timestamp are 0 or more, --max-errors is -1 or more"}
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
			fmt.Fprintf(os.Stderr, "ilion: the rejected rows, and why, are in %s\n", c.Errors)
		}
	}
	if err == nil && rep.Rejected > 0 {
		err = fmt.Errorf("%d rows were rejected", rep.Rejected)
	}
	return err
}

// bulkTarget reads what load and unload have in common.
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
	Table       string `arg:"" placeholder:"KEYSPACE.TABLE" help:"Table to unload, or - with --query."`
	Path        string `arg:"" optional:"" default:"-" placeholder:"PATH" help:"File, - for stdout, or DIR/ for a file a token range."`
	Query       string `placeholder:"SELECT" help:"Unload what this answers instead of a table."`
	Compression string `enum:"none,gzip,zstd," default:"" help:"Of files: none, gzip or zstd (default: by the ending of the file)."`
	Ranges      int    `default:"64" help:"Token ranges that the table is cut into: 1 to 65536."`
	Restart     bool   `help:"Write the files of a directory anew."`
	rowFormat
	bulkClient
}

// Run unloads a table or a query.
func (c *unloadCommand) Run(out io.Writer) error {
	if (c.Table == "-") != (c.Query != "") {
		return &usageError{"give KEYSPACE.TABLE, or - and --query"}
	}
	if c.Format == "cqlsh" {
		return &usageError{"cqlsh is a format to load: unload csv with --escape '\\', which its COPY FROM reads"}
	}
	name, client, format, err := bulkTarget(strings.TrimPrefix(c.Table, "-"), &c.bulkClient, &c.rowFormat)
	if err != nil {
		return err
	}
	if c.Ranges < 1 || c.Ranges > 65536 {
		return &usageError{"--ranges is 1 to 65536"}
	}
	compression := bulk.Compression(c.Compression)
	if compression == "" {
		compression = bulk.CompressionOf(c.Path)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rep, err := bulk.Unload(ctx, bulk.UnloadOptions{Client: client, Table: name, Query: c.Query, Path: c.Path,
		Stdout: out, Format: format, Compression: compression, Columns: c.Columns, Ranges: c.Ranges, Rate: c.Rate,
		Restart: c.Restart, Progress: c.progress(), Notice: os.Stderr})
	if rep != nil {
		fmt.Fprintf(os.Stderr, "%d rows unloaded in %.1f s", rep.Rows, rep.Took.Seconds())
		if rep.Skipped > 0 {
			fmt.Fprintf(os.Stderr, ", %d token ranges had been unloaded before", rep.Skipped)
		}
		fmt.Fprintln(os.Stderr)
	}
	return err
}
