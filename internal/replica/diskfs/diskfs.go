// SPDX-License-Identifier: Apache-2.0

// Package diskfs is the file system between a Pebble store and a disk that is full or failing. Without it, Pebble ends
// the process with a stack trace if its log cannot be written. It also retries a failed flush or compaction immediately
// and indefinitely.
//
// Guarantees:
//
//   - (F1) If the write-ahead log cannot be written, the store stops. Its owner is notified once, with a one-line text.
//     Writers block until the process ends.
//   - (F2) A failed flush or compaction is not retried before RetryAfter has passed.
//   - (F3) Compactions leave Options.KeepFree bytes free for logs and flushes, which cannot be postponed.
//   - (F4) A checkpoint that cannot be written returns an error; the store continues to serve.
//   - (F5) If no file descriptor is available, opening a file takes a descriptor from the Reserve, or waits until a
//     descriptor is free.
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
	// Usage, if not nil, replaces GetDiskUsage of the wrapped file system.
	Usage UsageFunc
	// KeepFree returns the number of bytes that compactions leave free. If it is nil, compactions leave no space free.
	KeepFree func() uint64
	// Logger is the logger of the store. Its Fatalf is called if the log cannot be written. Fatalf must not return,
	// because Pebble must not see the error.
	Logger pebble.Logger
	// Reserve holds spare file descriptors of the process. If it is nil, the file system has no reserve.
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

// New returns the file system for a store that is about to be opened in dir.
func New(fs vfs.FS, dir string, o Options) *FS {
	if o.Usage == nil {
		o.Usage = fs.GetDiskUsage
	}
	g := &FS{dir: dir, o: o, closing: make(chan struct{})}
	g.FS = retryFS{fs, g}
	return g
}

// MarkOpen records that the store is open. Before this call, errors of the log are returned to Pebble.
func (g *FS) MarkOpen() { g.open.Store(true) }

// Close must be called before the store is closed. It ends the delays after failures.
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

// OpenDir implements vfs.FS. It wraps the store's own directory, because a new log is durable only after its directory
// has been synced.
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

// isStoreDir reports whether dir is the store's own directory. Other directories belong to checkpoints, which may be on
// other disks. Errors of other directories must not stop the store.
func (g *FS) isStoreDir(dir string) bool { return filepath.Clean(dir) == filepath.Clean(g.dir) }

// Checkpoint writes a copy of the store, including all of its log, to dir, which must not exist. If the copy fails, dir
// is removed.
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

// checkFree returns an error if there is too little space for a compaction to write another checkEvery bytes. If a file
// system does not report its usage, checkFree assumes enough space.
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
