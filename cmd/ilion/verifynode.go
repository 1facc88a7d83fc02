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
	"github.com/ilion-db/ilion/internal/node/options"
	"github.com/ilion-db/ilion/internal/tool/backup"
)

const (
	// verifyMemory is the memory budget of the temporary node.
	verifyMemory = 256 << 20
	// verifySpaceFactor is the temporary disk usage per restored byte. verifySpaceMin is the additional disk space for
	// the write-ahead log, compactions, indexes, and views, in bytes.
	verifySpaceFactor = 3
	verifySpaceMin    = 256 << 20
	// verifyParallel is the number of files that are restored concurrently.
	verifyParallel = 4
	// builtWait is the time limit for building indexes and views. builtPause is the polling interval.
	builtWait  = 6 * time.Hour
	builtPause = 200 * time.Millisecond
)

// verifyNode verifies a backup by restoring it into a temporary node.
type verifyNode struct {
	// dir is the parent of the node's data directory. If dir is empty, the parent is the system's directory for
	// temporary files.
	dir      string
	target   backup.Target
	manifest *archive.Manifest
	quiet    bool
	out      io.Writer
}

// verify restores the backup into a temporary node, compares the restored rows with the backup, and removes the node.
func (s *verifyNode) verify(ctx context.Context) (err error) {
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
	n, err := startVerifyNode(ctx, filepath.Join(dir, "data"))
	if err != nil {
		return fmt.Errorf("cannot start a temporary node: %w", err)
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	at := &adminClient{Data: filepath.Join(dir, "data")}
	finished, err := s.restore(ctx, at)
	if err != nil {
		return fmt.Errorf("cannot restore the backup into the temporary node: %w", err)
	}
	shown := &progressLine{out: os.Stderr, quiet: s.quiet, word: "compared"}
	c := &backup.Comparer{Node: &nodeClient{adminClient: at}, Target: s.target, Manifest: s.manifest,
		Finished: finished, Now: time.Now().Unix(), Display: shown}
	found, err := c.Compare(ctx)
	shown.end()
	if err != nil {
		return fmt.Errorf("cannot compare the restored rows: %w", err)
	}
	if err := s.derived(ctx, at, found); err != nil {
		return err
	}
	return s.report(found, time.Since(began))
}

// room returns an error if the disk does not have enough space for the restored data.
func (s *verifyNode) room() error {
	usage, err := vfs.Default.GetDiskUsage(s.dir)
	if err != nil {
		return fmt.Errorf("cannot determine the free space of %s: %w", s.dir, err)
	}
	need := int64(0)
	s.manifest.Files(func(f archive.File) { need += f.Bytes })
	need = need*verifySpaceFactor + verifySpaceMin
	if usage.AvailBytes < uint64(need) {
		return fmt.Errorf("cannot restore the backup in %s: %s are free, but up to %s are required. Specify another "+
			"directory with --scratch", s.dir, sizeText(int64(usage.AvailBytes)), sizeText(need))
	}
	return nil
}

// startVerifyNode starts a node that only this process can use. The node accepts requests only at the admin socket in
// its directory. The password of the only user is discarded.
func startVerifyNode(ctx context.Context, dir string) (*node.Node, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(rand.Text()), bcrypt.MinCost)
	if err != nil {
		return nil, err
	}
	return node.Start(ctx, options.Options{Data: dir, CQL: "127.0.0.1:0", HTTP: "off", Commit: "periodic",
		Memory: options.Memory{Budget: verifyMemory}, Auth: options.Auth{Users: map[string]string{
			"verify": string(hash)}}})
}

// restore restores all tables.
func (s *verifyNode) restore(ctx context.Context, at *adminClient) (finished bool, err error) {
	tables, err := backup.Select(s.manifest, "", "")
	if err != nil {
		return false, err
	}
	shown := &progressLine{out: os.Stderr, quiet: s.quiet, word: "restored"}
	r := &backup.Restorer{Node: &nodeClient{adminClient: at}, Target: s.target, Manifest: s.manifest, Tables: tables,
		Parallel: verifyParallel, Display: shown}
	err = r.Restore(ctx)
	shown.end()
	return r.Finished(), err
}

// derived waits until all views and indexes are built. Then it compares the views and indexes with their tables.
func (s *verifyNode) derived(ctx context.Context, at *adminClient, found *backup.Compared) error {
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

// compareBuilt waits until a view or an index is built. Then it compares the view or index with the table.
func compareBuilt(ctx context.Context, at *adminClient, kind, name string) error {
	for until := time.Now().Add(builtWait); ; {
		var said bytes.Buffer
		v := verifyOptions{adminClient: *at, Rate: 1 << 30}
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

// report prints the result of the verification.
func (s *verifyNode) report(found *backup.Compared, took time.Duration) error {
	if found.Different > 0 {
		for _, example := range found.Examples {
			fmt.Fprintln(s.out, example)
		}
		return fmt.Errorf("backup %s is damaged: %d restored rows are different", s.manifest.ID, found.Different)
	}
	fmt.Fprintf(s.out, "restored into a temporary node: %d tables with %d rows match the backup; %d views and %d "+
		"indexes match their tables (%s)\n", found.Tables, found.Rows, len(found.Views), len(found.Indexes),
		took.Round(time.Millisecond))
	if found.Finished > 0 {
		fmt.Fprintf(s.out, "%d more rows differ because the restore completed batches that were in progress during "+
			"the "+
			"backup\n", found.Finished)
	}
	if len(found.Others) > 0 {
		fmt.Fprintf(s.out, "not checked because they belong to vector indexes or containers: %s\n",
			strings.Join(found.Others, ", "))
	}
	return nil
}
