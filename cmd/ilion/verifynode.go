// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/crypto/bcrypt"

	"github.com/ilion-db/ilion/internal/model/archive"
	"github.com/ilion-db/ilion/internal/node"
	"github.com/ilion-db/ilion/internal/tool/backup"
)

const (
	// scratchMemory is the budget of the node that a backup is restored into to verify it.
	scratchMemory = 256 << 20
	// scratchSpace is how much of the disk a restored byte may take for a while, and scratchLeast what there has to be
	// beside that: the store's log, what is compacted, entries of indexes and views.
	scratchSpace = 3
	scratchLeast = 256 << 20
	// scratchParallel is how many files are restored at a time.
	scratchParallel = 4
	// builtWait is how long indexes and views may take to be built, builtPause how often it is looked.
	builtWait  = 6 * time.Hour
	builtPause = 200 * time.Millisecond
)

// scratch restores backups into a node that is there for that, to verify them.
type scratch struct {
	// dir is where the node gets a directory, the system's for temporary files if empty.
	dir      string
	target   backup.Target
	manifest *archive.Manifest
	quiet    bool
	out      io.Writer
}

// verify restores the backup, compares what is there with it, and removes all again.
func (s *scratch) verify(ctx context.Context) (err error) {
	began := time.Now()
	if s.dir == "" {
		s.dir = os.TempDir()
	}
	if err := s.room(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.dir, "ilion-verify-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := startScratch(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return fmt.Errorf("start a node to restore into: %w", err)
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	at := &door{Data: filepath.Join(dir, "data")}
	finished, err := s.restore(ctx, at)
	if err != nil {
		return fmt.Errorf("restore the backup to verify it: %w", err)
	}
	shown := &progressLine{out: os.Stderr, quiet: s.quiet, word: "compared"}
	c := &backup.Comparer{Door: &orders{door: at}, Target: s.target, Manifest: s.manifest, Finished: finished,
		Now: time.Now().Unix(), Told: shown.show}
	found, err := c.Compare(ctx)
	shown.end()
	if err != nil {
		return fmt.Errorf("compare what was restored: %w", err)
	}
	if err := s.derived(ctx, at, found); err != nil {
		return err
	}
	return s.report(found, time.Since(began))
}

// room looks whether the disk has room for what is restored.
func (s *scratch) room() error {
	usage, err := vfs.Default.GetDiskUsage(s.dir)
	if err != nil {
		return fmt.Errorf("find out how much room %s has: %w", s.dir, err)
	}
	need := int64(0)
	s.manifest.Files(func(f archive.File) { need += f.Bytes })
	need = need*scratchSpace + scratchLeast
	if usage.AvailBytes < uint64(need) {
		return fmt.Errorf("%s has %s free, and to restore the backup may take %s: name a directory with more room "+
			"(--scratch DIR)", s.dir, sizeText(int64(usage.AvailBytes)), sizeText(need))
	}
	return nil
}

// startScratch starts a node that nobody but this process can use: its orders come by the socket in its directory, and
// the password of its only user is not kept.
func startScratch(ctx context.Context, dir string) (*node.Node, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(rand.Text()), bcrypt.MinCost)
	if err != nil {
		return nil, err
	}
	return node.Start(ctx, node.Options{Data: dir, CQL: "127.0.0.1:0", HTTP: "off", Commit: "periodic",
		Memory: node.MemoryOptions{Budget: scratchMemory}, Auth: node.AuthOptions{Users: map[string]string{
			"verify": string(hash)}}})
}

// restore restores all tables.
func (s *scratch) restore(ctx context.Context, at *door) (finished bool, err error) {
	tables, err := backup.Select(s.manifest, "", "")
	if err != nil {
		return false, err
	}
	shown := &progressLine{out: os.Stderr, quiet: s.quiet, word: "restored"}
	r := &backup.Restorer{Door: &orders{door: at}, Target: s.target, Manifest: s.manifest, Tables: tables,
		Parallel: scratchParallel, Told: shown.show}
	err = r.Restore(ctx)
	shown.end()
	return r.Finished(), err
}

// derived compares views and indexes with their tables, when they are built.
func (s *scratch) derived(ctx context.Context, at *door, found *backup.Compared) error {
	for _, kind := range []struct {
		name  string
		names []string
	}{{"view", found.Views}, {"index", found.Indexes}} {
		for _, name := range kind.names {
			if err := compareBuilt(ctx, at, kind.name, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareBuilt waits until a view or an index is built, and compares it with its table.
func compareBuilt(ctx context.Context, at *door, kind, name string) error {
	for until := time.Now().Add(builtWait); ; {
		var said bytes.Buffer
		v := verifying{door: *at, Rate: 1 << 30}
		err := v.verify(&said, kind, name)
		switch {
		case err == nil:
			return nil
		case said.Len() > 0:
			return fmt.Errorf("%w\n%s", err, strings.TrimSpace(said.String()))
		case !strings.Contains(err.Error(), "is being built") || time.Now().After(until):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(builtPause):
		}
	}
}

// report says what was found.
func (s *scratch) report(found *backup.Compared, took time.Duration) error {
	if found.Different > 0 {
		for _, example := range found.Examples {
			fmt.Fprintln(s.out, example)
		}
		return fmt.Errorf("backup %s was restored, and %d rows are not what it has", s.manifest.ID, found.Different)
	}
	fmt.Fprintf(s.out, "restored into a scratch node: %d tables, %d rows as the backup has them, %d views and %d indexes "+
		"as their tables say, in %s\n", found.Tables, found.Rows, len(found.Views), len(found.Indexes),
		took.Round(time.Millisecond))
	if found.Finished > 0 {
		fmt.Fprintf(s.out, "%d more rows were changed by batches that were under way at the moment, which the restore has "+
			"finished\n", found.Finished)
	}
	if len(found.Others) > 0 {
		fmt.Fprintf(s.out, "not looked at, as they are of vectors or of containers: %s\n", strings.Join(found.Others, ", "))
	}
	return nil
}
