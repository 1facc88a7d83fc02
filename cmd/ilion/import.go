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
	"time"

	"github.com/ilion-db/ilion/internal/tool/bulk"
	"github.com/ilion-db/ilion/internal/tool/migration"
	"github.com/ilion-db/ilion/internal/tool/migration/schemadiff"
)

type importCommand struct {
	Copy   importCopyCommand   `cmd:"" default:"withargs" help:"Copy schema and rows, and optionally keep copying changes (default)"`
	Verify importVerifyCommand `cmd:"" help:"Compare both databases and repair differences"`
}

// importSource holds the source and the selected tables of an import.
type importSource struct {
	From            []string `required:"" placeholder:"HOST:PORT,..." help:"Nodes of the source: Cassandra 4.0 to 5.0, or Ilion"`
	FromUser        string   `env:"ILION_FROM_USER" help:"User name at the source"`
	FromPassword    string   `env:"ILION_FROM_PASSWORD" help:"Password at the source"`
	FromConsistency string   `default:"LOCAL_QUORUM" help:"Consistency level of reads from the source (default ${default})"`
	FromTLS         struct {
		clientTLS
	} `embed:"" prefix:"from-" envprefix:"FROM_"`

	Keyspaces []string `placeholder:"KEYSPACE,..." help:"Keyspaces to copy (default: all except system keyspaces)"`
	Tables    []string `placeholder:"KEYSPACE.TABLE,..." help:"Tables to copy (default: all tables of the keyspaces)"`
	Exclude   []string `placeholder:"KEYSPACE.TABLE,..." help:"Tables to exclude"`

	RateMB     int    `name:"rate-mb" placeholder:"MB" help:"Maximum read rate from the source in MB/s (default: unlimited)"`
	RangeMB    int    `name:"range-mb" default:"64" help:"Approximate size of a token range in MB (default ${default})"`
	Checkpoint string `placeholder:"FILE" help:"File that records progress, for resuming (default: ilion-import-HOST.checkpoint)"`
	Restart    bool   `help:"Ignore the checkpoint and start over"`
	Errors     string `placeholder:"FILE" help:"File for rejected rows and their errors (default: ilion-import-HOST.errors)"`
	MaxErrors  int64  `default:"100" help:"Maximum number of rejected rows; -1 means unlimited (default ${default})"`
	bulkClient
}

type importCopyCommand struct {
	SchemaOnly  bool          `xor:"only" help:"Copy the schema only"`
	DataOnly    bool          `xor:"only" help:"Copy rows only; the tables must exist"`
	SkipRefused bool          `help:"Skip schema objects that Ilion rejects (default: copy nothing if any is rejected)"`
	Roles       bool          `help:"Copy roles, password hashes, and permissions, except Cassandra's default superuser"`
	DryRun      bool          `help:"Show the planned changes without making them"`
	Verify      bool          `xor:"then" help:"Compare all rows after copying"`
	Follow      bool          `xor:"then" help:"Repeat the copy to pick up changes, until Ctrl-C"`
	UntilEqual  bool          `help:"With --follow: stop after a pass that finds no differences"`
	Pause       time.Duration `default:"10s" help:"With --follow: pause between passes (default ${default})"`
	importSource
}

// Run copies the selected tables.
func (c *importCopyCommand) Run(out io.Writer) error {
	o, err := c.options(out)
	if err != nil {
		return err
	}
	if c.UntilEqual && !c.Follow {
		return &usageError{"--until-equal requires --follow"}
	}
	o.SchemaOnly, o.DataOnly, o.SkipRefused, o.DryRun = c.SchemaOnly, c.DataOnly, c.SkipRefused, c.DryRun
	o.Roles = c.Roles
	o.Verify, o.Follow, o.UntilEqual, o.Pause = c.Verify, c.Follow, c.UntilEqual, c.Pause
	return c.run(o, out)
}

type importVerifyCommand struct {
	Repair     bool `help:"Overwrite different rows with the rows of the source, even if they are newer"`
	ValuesOnly bool `help:"Compare values only, not timestamps and expiration times"`
	importSource
}

// Run compares the selected tables.
func (c *importVerifyCommand) Run(out io.Writer) error {
	o, err := c.options(out)
	if err != nil {
		return err
	}
	o.VerifyOnly, o.Repair, o.ValuesOnly = true, c.Repair, c.ValuesOnly
	return c.run(o, out)
}

// options validates and converts the options that both commands share.
func (c *importSource) options(out io.Writer) (migration.Options, error) {
	o := migration.Options{RangeBytes: int64(c.RangeMB) << 20, Rate: c.Rate, ByteRate: c.RateMB * 1_000_000,
		Checkpoint: c.Checkpoint, Errors: c.Errors, Restart: c.Restart, MaxErrors: c.MaxErrors, Progress: c.progress,
		Out: out}
	if c.RateMB < 0 || c.RangeMB < 1 || c.MaxErrors < -1 {
		return o, &usageError{"option out of range: --rate-mb must be at least 0, --range-mb 1, and --max-errors -1"}
	}
	var err error
	if o.Target, err = c.client(); err != nil {
		return o, err
	}
	source := c.bulkClient
	source.credentials = credentials{User: c.FromUser, Password: c.FromPassword}
	source.clientTLS, source.Consistency, source.Addr = c.FromTLS.clientTLS, c.FromConsistency, nil
	for _, a := range c.From {
		source.Addr = append(source.Addr, withPort(a))
	}
	if o.Source, err = source.client(); err != nil {
		return o, fmt.Errorf("source: %w", err)
	}
	for _, l := range []struct {
		to    *[]bulk.Name
		names []string
	}{{&o.Select.Tables, c.Tables}, {&o.Select.Exclude, c.Exclude}} {
		for _, s := range l.names {
			n, err := bulk.ParseName(s)
			if err != nil {
				return o, &usageError{err.Error()}
			}
			*l.to = append(*l.to, n)
		}
	}
	o.Select.Keyspaces = schemadiff.Names(c.Keyspaces)
	host := strings.NewReplacer(":", "_", "/", "_").Replace(source.Addr[0])
	for file, ending := range map[*string]string{&o.Checkpoint: ".checkpoint", &o.Errors: ".errors"} {
		if *file == "" {
			*file = "ilion-import-" + host + ending
		}
	}
	return o, nil
}

func (c *importSource) run(o migration.Options, out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rep, err := migration.Run(ctx, o)
	if rep == nil {
		return err
	}
	for _, d := range rep.Differences {
		fmt.Fprintf(out, "%s: %s: %s\n", d.Table, printable(d.Key), d.What)
	}
	if n := rep.Tally.Different - int64(len(rep.Differences)); len(rep.Differences) > 0 && n > 0 {
		fmt.Fprintf(out, "and %d more\n", n)
	}
	if rep.Tally.Refused > 0 {
		fmt.Fprintf(os.Stderr, "ilion: see %s for the rejected rows and their errors\n", o.Errors)
	}
	return err
}
