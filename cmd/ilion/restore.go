// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/tool/backup"
)

type restoreCommand struct {
	adminClient
	transferOptions
	storageURL
	From  string `name:"from" required:"" env:"ILION_BACKUP" placeholder:"PLACE" help:"Repository: a directory or s3://BUCKET/PREFIX"`
	ID    string `name:"backup" placeholder:"BACKUP" help:"Backup to restore (default: the newest)"`
	At    string `name:"at" placeholder:"TIME" help:"Point in time to restore from an archive, such as 2026-11-24T15:04:05Z, or newest"`
	What  string `arg:"" name:"what" optional:"" placeholder:"KEYSPACE[.TABLE]" help:"Keyspace or table to restore (default: everything)"`
	As    string `name:"as" placeholder:"KEYSPACE[.TABLE]" help:"New name of the restored keyspace or table"`
	Roles bool   `name:"roles" help:"Also restore missing roles and their permissions"`
}

// Run restores a backup.
func (c *restoreCommand) Run(out io.Writer) error {
	if err := c.transferOptions.check(); err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	target, err := c.storageURL.open(ctx, c.From, false)
	if err != nil {
		return err
	}
	m, point, err := c.source(ctx, target)
	if err != nil {
		return err
	}
	tables, err := backup.Select(m, c.What, c.As)
	if err != nil {
		return err
	}
	shown := &progressLine{out: os.Stderr, quiet: c.Quiet, word: "restored"}
	r := &backup.Restorer{Node: &nodeClient{adminClient: &c.adminClient}, Target: target, Manifest: m,
		Point: point, Tables: tables, Roles: c.Roles,
		Parallel: c.Parallel, Rate: int64(c.RateMB) * 1e6, Display: shown}
	began := time.Now()
	err = r.Restore(ctx)
	shown.end()
	if err != nil {
		if shown.last.Files > 0 {
			return fmt.Errorf("restore failed: %w. Run the same command again to resume", err)
		}
		if errors.As(err, new(*unreachableError)) {
			return fmt.Errorf("%w. A restore requires a running node or cluster", err)
		}
		return err
	}
	fmt.Fprintf(out, "%s as of %s, %s in %s, in %s\n", plural(len(tables), "table"),
		m.Time.Format("2006-01-02 15:04:05.000 MST"), sizeText(shown.last.Done), plural(shown.last.Files, "file"),
		time.Since(began).Round(time.Millisecond))
	return nil
}

// source returns the backup to restore. If --at is set, source also returns the point in time.
func (c *restoreCommand) source(ctx context.Context, target backup.Target) (*archive.Manifest, *backup.Point, error) {
	if c.At == "" {
		m, err := backup.Newest(ctx, target, c.ID)
		return m, nil, err
	}
	if c.ID != "" {
		return nil, nil, &usageError{"--backup and --at cannot be combined: specify one of them"}
	}
	log, err := backup.LoadLog(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	at, ok := log.Newest()
	if c.At != newestWord {
		if at, err = parseTime(c.At); err != nil {
			return nil, nil, err
		}
	} else if !ok {
		at = time.Now() // at returns an error that lists the available periods
	}
	p, err := log.At(ctx, target, at)
	if err != nil {
		return nil, nil, err
	}
	return p.Manifest, p, nil
}

// newestWord is the value of --at that selects the most recent restore point.
const newestWord = "newest"

// parseTime parses a time. If the text contains no time zone, the time is in UTC.
func parseTime(text string) (time.Time, error) {
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05",
		"2006-01-02 15:04:05 MST"} {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, &usageError{fmt.Sprintf("invalid --at %s: expected a time such as 2026-11-24T15:04:05Z, with or without "+
		"fractions of a second, or %s", text, newestWord)}
}
