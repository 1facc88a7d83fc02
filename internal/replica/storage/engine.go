// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/diskfs"
	"github.com/ilion-db/ilion/internal/replica/pebblecheck"
)

// engine is the Pebble store that all parts of a Store use. Only the engine knows whether the store has failed.
type engine struct {
	fs  vfs.FS
	dir string
	o   Options
	db  *pebble.DB
	m   counters
	// diskFS is the file system that Pebble uses.
	diskFS *diskfs.FS
	ann    annCache
	// spans caches the spans of the replicas of this node.
	spans spanCache
	// progressed is the size of the progress operands since the last replacement of the progress record. progressSize
	// is the size of the record after this replacement. Both sizes are in bytes.
	progressed, progressSize atomic.Int64
	// sweptAt is the time of the oldest removal by a sweep in the memtable, in Unix nanoseconds. It is 0 if the
	// memtable contains no such removal.
	sweptAt atomic.Int64
	// backgroundFailed is true from a failed flush or compaction until the next successful flush or compaction.
	backgroundFailed atomic.Bool
	// failed is set when the store finds damage. The store then rejects all requests (ST4).
	failed atomic.Pointer[error]
	// closing is closed to stop the background goroutines.
	closing chan struct{}
	wg      sync.WaitGroup
}

// explain prefixes an error of the operating system or Pebble with instructions for the administrator.
func (s *engine) explain(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("write permission denied: %w", err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("another process uses it: %w", err)
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		return errors.New("its identity file exists but its data is missing")
	}
	named, damaged := pebblecheck.NameLogs(s.fs, s.dir, err)
	if damaged || pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, named)
	}
	return err
}

// Sync makes all data that was applied before the call durable (ST1). Concurrent calls share a single log sync.
func (s *engine) Sync() error {
	if err := s.Err(); err != nil {
		return err
	}
	s.m.syncs.Add(1)
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return s.check(fmt.Errorf("sync store: %w", err))
	}
	return nil
}

// Flush writes the memtable to an sstable.
func (s *engine) Flush() error { return s.check(s.db.Flush()) }

// Err returns the reason why the store stopped serving, or nil.
func (s *engine) Err() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// stop permanently stops serving.
func (s *engine) stop(err error) {
	if s.failed.CompareAndSwap(nil, &err) {
		s.o.Observer.Failed(err)
	}
}

// check returns err and stops the store if err indicates damage.
func (s *engine) check(err error) error {
	if err == nil {
		return nil
	}
	if pebble.IsCorruptionError(err) || isDamage(err) {
		s.stop(fmt.Errorf("%w: %w", ErrCorrupt, err))
	}
	if failed := s.Err(); failed != nil {
		return failed
	}
	return err
}

// getCopy returns a copy of a value, or nil if the key does not exist.
func (s *engine) getCopy(key []byte) ([]byte, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, s.check(fmt.Errorf("get %x: %w", key, err))
	}
	out := append([]byte{}, value...)
	return out, closer.Close()
}
