// SPDX-License-Identifier: Apache-2.0

// Package diskfs implements a file system that protects a Pebble store from a full or failing disk. Without diskfs,
// Pebble ends the process with a stack trace if it cannot write its log, and retries a failed flush or compaction
// immediately and indefinitely.
//
// Guarantees:
//
//   - (F1) If the write-ahead log cannot be written, the store stops. The owner of the store is notified once, with a
//     one-line text. Writers block until the process ends.
//   - (F2) A failed flush or compaction is not retried before RetryAfter has passed.
//   - (F3) Compactions leave Options.KeepFree bytes free for logs and flushes, which cannot be postponed.
//   - (F4) If a checkpoint cannot be written, Checkpoint returns an error, and the store continues to serve requests.
//   - (F5) If the process has no free file descriptor, opening a file uses a descriptor from the Reserve or waits for a
//     free descriptor.
//
// Start reading at FS. CheckFreeSpace must be called before a store is opened.
package diskfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// RetryAfter is the minimum delay before Pebble retries a failed flush or compaction.
	RetryAfter = time.Second
	// checkEvery is the number of bytes that a compaction writes between two checks of the free space.
	checkEvery = 1 << 20
	// LogSuffix is the suffix of the files of a write-ahead log.
	LogSuffix = ".log"
)

// These are the categories that Pebble assigns to the files of flushes and compactions.
const (
	flushing      vfs.DiskWriteCategory = "pebble-memtable-flush"
	compacting    vfs.DiskWriteCategory = "pebble-compaction"
	rewritingBlob vfs.DiskWriteCategory = "pebble-blob-file-rewrite"
)

// ErrLowSpace stops a compaction that would use the space reserved for logs and flushes. It wraps ENOSPC.
var ErrLowSpace = fmt.Errorf("compaction postponed: the disk is almost full: %w", syscall.ENOSPC)

// UsageFunc returns the usage of the disk that contains a directory.
type UsageFunc func(dir string) (vfs.DiskUsage, error)

// Options configure an FS.
type Options struct {
	// Usage replaces GetDiskUsage of the wrapped file system if it is not nil.
	Usage UsageFunc
	// KeepFree returns the number of bytes that compactions leave free. If KeepFree is nil, compactions may fill the
	// disk.
	KeepFree func() uint64
	// Logger is the logger of the store. FS calls Fatalf if the log cannot be written. Fatalf must not return, because
	// Pebble must not receive the error.
	Logger pebble.Logger
	// Reserve holds spare file descriptors of the process. It may be nil.
	Reserve *Reserve
}

// FS is the file system of one store.
type FS struct {
	vfs.FS
	dir  string
	o    Options
	open atomic.Bool

	closing   chan struct{}
	closeOnce sync.Once

	// copyMu is held while a checkpoint is written. copyFailed is the first error from syncing a directory of the
	// checkpoint.
	copyMu     sync.Mutex
	copyFailed error
}

// New returns the file system for a store in dir. It must be called before the store is opened.
func New(fs vfs.FS, dir string, o Options) *FS {
	if o.Usage == nil {
		o.Usage = fs.GetDiskUsage
	}
	g := &FS{dir: dir, o: o, closing: make(chan struct{})}
	g.FS = retryFS{fs, g}
	return g
}

// MarkOpen records that the store is open. Before this call, FS returns errors of the log to Pebble.
func (g *FS) MarkOpen() { g.open.Store(true) }

// Close ends the delays after failures. It must be called before the store is closed.
func (g *FS) Close() { g.closeOnce.Do(func() { close(g.closing) }) }

// Unwrap implements vfs.FS.
func (g *FS) Unwrap() vfs.FS { return g.FS }

// failIfOpen stops the store if err is not nil and the store is open.
func (g *FS) failIfOpen(err error) error {
	if err != nil && g.open.Load() {
		g.o.Logger.Fatalf("%s", err.Error())
	}
	return err
}

// Create implements vfs.FS.
func (g *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	background := c == flushing || c == compacting || c == rewritingBlob
	if background && c != flushing {
		if err := g.checkFree(); err != nil {
			return nil, g.delayError(err)
		}
	}
	file, err := g.FS.Create(name, c)
	if background {
		if err != nil {
			return nil, g.delayError(err)
		}
		return &tableFile{File: file, fs: g, yields: c != flushing}, nil
	}
	return g.wrap(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (g *FS) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := g.FS.ReuseForWrite(before, name, c)
	return g.wrap(name, file, err)
}

// OpenDir implements vfs.FS. It wraps the store's own directory, because a new log is durable only after a sync of this
// directory.
func (g *FS) OpenDir(name string) (vfs.File, error) {
	dir, err := g.FS.OpenDir(name)
	switch own := g.isStoreDir(name); {
	case err != nil && own:
		return nil, g.failIfOpen(err)
	case err != nil:
		return nil, err
	case own:
		return walFile{dir, g}, nil
	}
	return copyDir{dir, g}, nil
}

func (g *FS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if !strings.HasSuffix(name, LogSuffix) || !g.isStoreDir(g.PathDir(name)) || g.failIfOpen(err) != nil {
		return file, err
	}
	return walFile{file, g}, nil
}

// isStoreDir reports whether dir is the store's own directory. All other directories belong to checkpoints, whose
// errors must not stop the store.
func (g *FS) isStoreDir(dir string) bool { return filepath.Clean(dir) == filepath.Clean(g.dir) }

// Checkpoint writes a copy of the store, including the whole log, to dir. dir must not exist. If the copy fails,
// Checkpoint removes dir.
func (g *FS) Checkpoint(db *pebble.DB, dir string) error {
	g.copyMu.Lock()
	defer g.copyMu.Unlock()
	g.copyFailed = nil
	if err := db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	if g.copyFailed != nil {
		return errors.Join(g.copyFailed, g.RemoveAll(dir))
	}
	return nil
}

// checkFree returns an error if the disk has too little space for a compaction to write checkEvery more bytes. If the
// file system does not report its usage, checkFree assumes that enough space is free.
func (g *FS) checkFree() error {
	if g.o.KeepFree == nil {
		return nil
	}
	u, err := g.o.Usage(g.dir)
	if err == nil && u.TotalBytes > 0 && u.AvailBytes < g.o.KeepFree()+checkEvery {
		return ErrLowSpace
	}
	return nil
}

// delayError returns err after RetryAfter, or when the store is closed (F2). Pebble holds no lock during the delay.
func (g *FS) delayError(err error) error {
	t := time.NewTimer(RetryAfter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.closing:
	}
	return err
}
