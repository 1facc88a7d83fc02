// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/diskfs"
	"github.com/ilion-db/ilion/internal/replica/pebblecheck"
)

// Store is an open store. It consists of several parts, each with one responsibility. All methods except Close are safe
// for concurrent use.
type Store struct {
	*engine
	*rows
	*disk
	*runFinder
	*Directory
	*Tables
	*Records
	*Reader
	*Writer
	*Sweeper
	*Snapshots
	*Statistics
}

// Open opens the store in dir. It creates the store if it does not exist. Its errors are single lines.
func Open(fs vfs.FS, dir string, o Options) (*Store, error) {
	s := assemble(&engine{fs: fs, dir: dir, o: o.withDefaults(fs), closing: make(chan struct{})})
	s.ann.init(s.o.ANNCacheBytes)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, s.explain(err))
	}
	return s, nil
}

// assemble creates the parts of a store for an engine that is not open yet.
func assemble(e *engine) *Store {
	s := &Store{engine: e, Tables: &Tables{engine: e}, disk: &disk{engine: e}, Directory: &Directory{engine: e},
		Records: &Records{e}}
	s.rows = &rows{engine: e, Tables: s.Tables}
	s.rows.init(&e.o)
	s.runFinder = &runFinder{e, s.rows, s.Records}
	s.Reader = &Reader{e, s.rows}
	s.Writer = &Writer{e, s.rows, s.disk}
	s.Sweeper = &Sweeper{e, s.rows, s.Records}
	s.Snapshots = &Snapshots{engine: e, rows: s.rows, disk: s.disk, runFinder: s.runFinder, Records: s.Records,
		directory: s.Directory}
	s.Statistics = &Statistics{engine: e, rows: s.rows, disk: s.disk, reader: s.Reader, snapshots: s.Snapshots}
	return s
}

func (s *Store) open() error {
	if !s.o.ReadOnly {
		if err := makeDir(s.fs, s.dir); err != nil {
			return err
		}
	}
	if err := s.claim(); err != nil {
		return err
	}
	err := s.openClaimed()
	if err != nil {
		_ = s.lock.Close()
	}
	return err
}

// openClaimed opens a directory that is locked against other processes.
func (s *Store) openClaimed() error {
	exists, err := s.identify()
	if err != nil {
		return err
	}
	if err := pebblecheck.Check(s.fs, s.dir); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !s.o.ReadOnly {
		if err := diskfs.CheckFreeSpace(s.fs, s.dir, s.o.DiskUsage); err != nil {
			return err
		}
	}
	s.o.MemtableBytes = diskfs.MemtableBytes(s.o.DiskUsage, s.dir, s.o.MemtableBytes)
	s.diskFS = diskfs.New(s.fs, s.dir, diskfs.Options{Usage: s.o.DiskUsage, KeepFree: s.reservedFree,
		Logger: logger{s.engine}, Reserve: s.o.Reserve})
	po := pebbleOptions(s.diskFS, s.o)
	po.FormatMajorVersion = pebbleFormat(s.Level())
	po.Lock, po.ErrorIfNotExists = s.lock, exists
	po.Logger, po.EventListener = logger{s.engine}, s.listener()
	err = pebblecheck.CheckOptions(s.fs, s.dir, po)
	if err == nil {
		err = pebblecheck.CheckLogs(s.fs, s.dir)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if s.db, err = pebble.Open(s.dir, po); err != nil {
		return err
	}
	if err := s.start(exists); err != nil {
		return errors.Join(err, s.db.Close())
	}
	s.diskFS.MarkOpen()
	return nil
}

// start loads the in-memory state and starts the background work.
func (s *Store) start(exists bool) error {
	if !exists {
		if err := s.db.LogData(nil, pebble.Sync); err != nil {
			return err
		}
		// Pebble's first log does not record the synced position, so the store could not detect damage in this log.
		if err := s.db.Flush(); err != nil {
			return err
		}
		if err := commitTemp(s.fs, s.dir); err != nil {
			return err
		}
	}
	if !s.o.ReadOnly {
		if err := s.emptySnapshots(); err != nil {
			return err
		}
	}
	if err := s.loadTables(s.Records); err != nil {
		return err
	}
	if err := s.loadRuns(); err != nil {
		return err
	}
	s.checkDisk()
	s.wg.Go(s.watchDisk)
	s.wg.Go(s.loop)
	s.wg.Go(s.reclaim)
	return nil
}

// Close stops the background work, syncs and flushes all applied data, and closes the store. The next Open therefore
// need not replay the log. No other call may be in progress.
func (s *Store) Close() error {
	close(s.closing)
	s.diskFS.Close()
	s.wg.Wait()
	var err error
	if !s.o.ReadOnly && s.Err() == nil {
		err = s.db.Flush()
	}
	err = errors.Join(err, s.db.Close())
	return errors.Join(err, s.lock.Close())
}

// Checkpoint writes a consistent copy of the store to dir, which must not exist. Checkpoint links files if possible and
// copies them otherwise.
func (s *Store) Checkpoint(dir string) error {
	if err := s.diskFS.Checkpoint(s.db, dir); err != nil {
		return s.check(fmt.Errorf("checkpoint to %s: %w", dir, err))
	}
	err := writeTemp(s.fs, dir, s.Identity())
	if err == nil {
		err = commitTemp(s.fs, dir)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("checkpoint to %s: %w", dir, err), s.fs.RemoveAll(dir))
	}
	return nil
}

// Compact flushes the memtable and merges all levels. The duration is proportional to the size of the store.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.db.Compact(ctx, []byte{0}, bytes.Repeat([]byte{0xff}, 8), true); err != nil {
		return s.check(fmt.Errorf("compact: %w", err))
	}
	return nil
}
