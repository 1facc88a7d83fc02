// SPDX-License-Identifier: Apache-2.0

// Package guard stands between a Pebble store and a disk that is full or broken. Left alone, Pebble ends the process
// with a stack trace when its log cannot be written, and repeats a flush or compaction that fails at once and for ever.
//
// Guarantees: (F1) a log that cannot be written breaks the store: its owner is told once, in one line, and whoever
// writes waits for the end of the process; (F2) a flush or a compaction that fails is not repeated before RetryAfter
// has passed; (F3) a compaction leaves Options.Keep bytes free, for logs and flushes, which cannot wait; (F4) a
// checkpoint that cannot be written is an error, and the store goes on; (F5) a file that cannot be opened because there
// are no descriptors left gets one of the Reserve, or is waited for as long as it takes.
//
// Start at Guard; Room is what a store asks before it opens.
package guard

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
	// RetryAfter is how long a flush or compaction that failed waits before Pebble may try again.
	RetryAfter = time.Second
	// lookEvery is how many bytes a compaction writes between two looks at the free space.
	lookEvery = 1 << 20
	// LogSuffix is that of the files of a write-ahead log.
	LogSuffix = ".log"
)

// The categories that Pebble gives to the files of flushes and compactions.
const (
	flushing      vfs.DiskWriteCategory = "pebble-memtable-flush"
	compacting    vfs.DiskWriteCategory = "pebble-compaction"
	rewritingBlob vfs.DiskWriteCategory = "pebble-blob-file-rewrite"
)

// ErrNoRoom ends a compaction that would take the space that logs and flushes need. It is an ENOSPC.
var ErrNoRoom = fmt.Errorf("compaction put off, the disk is almost full: %w", syscall.ENOSPC)

// Usage tells how full the disk is that holds a directory.
type Usage func(dir string) (vfs.DiskUsage, error)

// Options of a Guard.
type Options struct {
	// Usage replaces the file system's own answer; nil does not.
	Usage Usage
	// Keep is how many bytes a compaction leaves free; nil: none.
	Keep func() uint64
	// Broken is told that the log cannot be written. It must not return: Pebble must not see the error.
	Broken func(text string)
	// Reserve is that of the process; nil: there is none.
	Reserve *Reserve
}

// Guard is the file system of one store.
type Guard struct {
	vfs.FS
	dir  string
	o    Options
	used atomic.Bool

	closing   chan struct{}
	closeOnce sync.Once

	// copying is held while a checkpoint is written; copyFailed is the first sync of a directory of it that failed.
	copying    sync.Mutex
	copyFailed error
}

// New returns the guard of a store that is about to be opened in dir.
func New(fs vfs.FS, dir string, o Options) *Guard {
	if o.Usage == nil {
		o.Usage = fs.GetDiskUsage
	}
	g := &Guard{dir: dir, o: o, closing: make(chan struct{})}
	g.FS = patient{fs, g}
	return g
}

// Opened says that the store is open: until then errors of its log are returned.
func (g *Guard) Opened() { g.used.Store(true) }

// Close says that the store is about to be closed: what failed does not wait any more.
func (g *Guard) Close() { g.closeOnce.Do(func() { close(g.closing) }) }

// Unwrap implements vfs.FS.
func (g *Guard) Unwrap() vfs.FS { return g.FS }

// must breaks the store if there is an error and the store is open.
func (g *Guard) must(err error) error {
	if err != nil && g.used.Load() {
		g.o.Broken(err.Error())
	}
	return err
}

// Create implements vfs.FS.
func (g *Guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	background := c == flushing || c == compacting || c == rewritingBlob
	if background && c != flushing {
		if err := g.room(); err != nil {
			return nil, g.later(err)
		}
	}
	file, err := g.FS.Create(name, c)
	if background {
		if err != nil {
			return nil, g.later(err)
		}
		return &tableFile{File: file, g: g, yields: c != flushing}, nil
	}
	return g.wrap(name, file, err)
}

// ReuseForWrite implements vfs.FS.
func (g *Guard) ReuseForWrite(before, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := g.FS.ReuseForWrite(before, name, c)
	return g.wrap(name, file, err)
}

// OpenDir implements vfs.FS: a new log is not safe before its directory is.
func (g *Guard) OpenDir(name string) (vfs.File, error) {
	dir, err := g.FS.OpenDir(name)
	switch own := g.own(name); {
	case err != nil && own:
		return nil, g.must(err)
	case err != nil:
		return nil, err
	case own:
		return logFile{dir, g}, nil
	}
	return copyDir{dir, g}, nil
}

func (g *Guard) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if !strings.HasSuffix(name, LogSuffix) || !g.own(g.PathDir(name)) || g.must(err) != nil {
		return file, err
	}
	return logFile{file, g}, nil
}

// own reports whether a directory is the store's. Others belong to checkpoints, which may be on other disks: whatever
// happens to those is no reason to break the store.
func (g *Guard) own(dir string) bool { return filepath.Clean(dir) == filepath.Clean(g.dir) }

// Checkpoint writes a copy of the store, all of its log included, to dir, which must not exist. A copy that fails
// leaves nothing behind that could be taken for one.
func (g *Guard) Checkpoint(db *pebble.DB, dir string) error {
	g.copying.Lock()
	defer g.copying.Unlock()
	g.copyFailed = nil
	if err := db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return err
	}
	if g.copyFailed != nil {
		return errors.Join(g.copyFailed, g.RemoveAll(dir))
	}
	return nil
}

// room refuses a compaction if there is too little space for one that goes on for another lookEvery bytes. A file
// system that cannot say has room.
func (g *Guard) room() error {
	if g.o.Keep == nil {
		return nil
	}
	u, err := g.o.Usage(g.dir)
	if err == nil && u.TotalBytes > 0 && u.AvailBytes < g.o.Keep()+lookEvery {
		return ErrNoRoom
	}
	return nil
}

// later returns an error after a while, or when the store is closed (F2). Pebble holds no lock meanwhile.
func (g *Guard) later(err error) error {
	t := time.NewTimer(RetryAfter)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.closing:
	}
	return err
}

// Full reports whether an error says that the disk is full.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
