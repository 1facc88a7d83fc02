// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ilion-db/ilion/internal/tool/backup"
)

type restoreCommand struct {
	door
	transfer
	place
	From  string `name:"from" required:"" env:"ILION_BACKUP" placeholder:"PLACE" help:"Where backups are kept."`
	ID    string `name:"backup" placeholder:"BACKUP" help:"Which one; the newest if it is not said."`
	What  string `arg:"" name:"what" optional:"" placeholder:"KEYSPACE[.TABLE]" help:"What is restored; everything if it is not said."`
	As    string `name:"as" placeholder:"KEYSPACE[.TABLE]" help:"What it becomes, beside what is there."`
	Roles bool   `name:"roles" help:"Restore roles that are not there, too, with what they may do."`
}

// Run restores a backup.
func (c *restoreCommand) Run(out io.Writer) error {
	if err := c.transfer.check(); err != nil {
		return err
	}
	ctx, stop := interrupted()
	defer stop()
	target, err := c.place.open(ctx, c.From, false)
	if err != nil {
		return err
	}
	m, err := backup.Newest(ctx, target, c.ID)
	if err != nil {
		return err
	}
	tables, err := backup.Select(m, c.What, c.As)
	if err != nil {
		return err
	}
	shown := &progressLine{out: os.Stderr, quiet: c.Quiet, word: "restored"}
	r := &backup.Restorer{Door: &orders{door: &c.door}, Target: target, Manifest: m, Tables: tables, Roles: c.Roles,
		Parallel: c.Parallel, Rate: int64(c.RateMB) * 1e6, Told: shown.show}
	began := time.Now()
	err = r.Restore(ctx)
	shown.end()
	if err != nil {
		if shown.last.Files > 0 {
			return fmt.Errorf("%w (what was restored stays: the same command goes on with it)", err)
		}
		return err
	}
	fmt.Fprintf(out, "%d tables as of %s, %s in %d files, in %s\n", len(tables),
		m.Moment.Format("2006-01-02 15:04:05.000 MST"), sizeText(shown.last.Done), shown.last.Files,
		time.Since(began).Round(time.Millisecond))
	return nil
}
