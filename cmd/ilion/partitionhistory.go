// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ilion-db/ilion/internal/model/topology"
	"github.com/ilion-db/ilion/internal/server/admin"
)

type partitionHistoryCommand struct {
	adminClient
	refreshOptions
	Table string `arg:"" optional:"" placeholder:"KEYSPACE.TABLE" help:"Table to show (default: all tables)"`
}

// Run prints the completed operations on physical partitions in chronological order.
func (c *partitionHistoryCommand) Run(out io.Writer) error {
	return c.show(out, func(ctx context.Context) (any, func(io.Writer), error) {
		changes, err := c.changes(ctx)
		return changes, func(out io.Writer) { printHistory(out, changes) }, err
	})
}

func (c *partitionHistoryCommand) changes(ctx context.Context) ([]admin.ChangeStatus, error) {
	var all []admin.ChangeStatus
	if err := c.fetch(ctx, "/history", &all); err != nil {
		return nil, err
	}
	if c.Table != "" {
		if err := c.checkTable(ctx, all); err != nil {
			return nil, err
		}
	}
	changes := []admin.ChangeStatus{}
	for i := range all {
		if c.Table == "" || all[i].Table == c.Table {
			changes = append(changes, all[i])
		}
	}
	return changes, nil
}

// checkTable returns an error if the table does not exist and does not appear in the history.
func (c *partitionHistoryCommand) checkTable(ctx context.Context, all []admin.ChangeStatus) error {
	if slices.ContainsFunc(all, func(ch admin.ChangeStatus) bool { return ch.Table == c.Table }) {
		return nil
	}
	s, err := c.status(ctx)
	if err != nil || slices.ContainsFunc(s.Tables, func(t admin.TableStatus) bool { return t.Name == c.Table }) {
		return err
	}
	hint := ""
	if _, err := time.ParseDuration(c.Table); err == nil {
		hint = fmt.Sprintf(". To set the refresh interval, use --watch=%s", c.Table)
	}
	return fmt.Errorf("table %s does not exist. Use KEYSPACE.TABLE%s", c.Table, hint)
}

func printHistory(out io.Writer, changes []admin.ChangeStatus) {
	w := newTable(out, "ENDED", "TABLE", "WHAT", "CAUSE", "TOOK", "ON DISK", "PAUSE", "OUTCOME")
	defer w.end()
	for i := range changes {
		ch := &changes[i]
		w.row(ch.Ended, ch.Table, changeText(ch), ch.Cause, time.Duration(ch.Millis)*time.Millisecond,
			sizeOr(ch.DiskBytes, "-"), pauseText(ch.PauseMicros), ch.Outcome)
	}
}

// printChanges prints the operations in progress.
func printChanges(out io.Writer, changes []admin.ChangeStatus) {
	for i := range changes {
		c := &changes[i]
		fmt.Fprintf(out, "In progress for %v: %s of %s (%s)\n", (time.Duration(c.Millis) * time.Millisecond).
			Round(time.Second), changeText(c), c.Table, c.Cause)
	}
}

// changeText describes an operation.
func changeText(c *admin.ChangeStatus) string {
	of := fmt.Sprintf(" of %d", c.Partition)
	if c.Partition == uint64(topology.MetaPartition) {
		of = ""
	}
	switch {
	case c.Kind == "split":
		return fmt.Sprintf("split of %d into %d", c.Partition, c.Other)
	case c.Kind == "merge":
		return fmt.Sprintf("merge of %d into %d", c.Other, c.Partition)
	case c.From == "":
		return fmt.Sprintf("new replica%s on %s", of, shortID(c.To, "?"))
	case c.To == "":
		return fmt.Sprintf("removal of the replica%s on %s", of, shortID(c.From, "?"))
	}
	return fmt.Sprintf("move%s from %s to %s", of, shortID(c.From, "?"), shortID(c.To, "?"))
}

func sizeOr(b uint64, none string) string {
	if b == 0 {
		return none
	}
	return size(b)
}

func pauseText(micros int64) string {
	if micros == 0 {
		return "-"
	}
	return (time.Duration(micros) * time.Microsecond).String()
}
