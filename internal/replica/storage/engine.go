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

	"github.com/ilion-db/ilion/internal/replica/guard"
	"github.com/ilion-db/ilion/internal/replica/manifest"
)

// engine is the Pebble store that all parts of a Store work on, and the one place that knows whether it still serves.
type engine struct {
	fs  vfs.FS
	dir string
	o   Options
	db  *pebble.DB
	m   counters
	// guard is the file system that Pebble sees.
	guard *guard.Guard
	near  nearCache
	// spans are what the replicas of this node hold.
	spans heldSpans
	// progressed is the size in bytes of the progress operands since the record was replaced last, progressSize that of
	// the record then.
	progressed, progressSize atomic.Int64
	// sweptAt is when a sweep first removed something that is still in the memtable, in Unix nanoseconds; 0 if none
	// has.
	sweptAt atomic.Int64
	// troubled is true from when a flush or compaction failed until one succeeds.
	troubled atomic.Bool
	// failed is set once, when damage was found; nothing is served after that (ST4).
	failed atomic.Pointer[error]
	// background goroutines end when closing is closed.
	closing chan struct{}
	wg      sync.WaitGroup
}

// explain puts what an administrator can act on in front of an error of the operating system or of Pebble.
func (s *engine) explain(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("no permission to write there: %w", err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("another process uses it: %w", err)
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		return errors.New("its identity file is there but its data is not")
	}
	named, damaged := manifest.NameLogs(s.fs, s.dir, err)
	if damaged || pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, named)
	}
	return err
}

// Sync makes durable whatever was applied before the call (ST1). Concurrent calls share one sync of the log.
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

// Err returns why the store stopped serving, nil while it serves.
func (s *engine) Err() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// stop ends serving for good.
func (s *engine) stop(err error) {
	if s.failed.CompareAndSwap(nil, &err) && s.o.Events.Corrupt != nil {
		s.o.Events.Corrupt(err)
	}
}

// check looks for damage in an error from Pebble or from decoding.
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

// getCopy returns a copy of a value, nil if there is none.
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
