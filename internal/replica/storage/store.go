// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ilion-db/ilion/internal/replica/guard"
	"github.com/ilion-db/ilion/internal/replica/manifest"
)

// Store is an open store, put together of parts that have one job each. Callers that need one of them are given that
// one. All methods may be used concurrently, but for Close.
type Store struct {
	*engine
	*rows
	*disk
	*learner
	*Directory
	*Tables
	*Records
	*Reader
	*Writer
	*Sweeper
	*Snapshots
	*Statistics
}

// Open opens the store in dir, creating it where there is none. Its errors fit on one line.
func Open(fs vfs.FS, dir string, o Options) (*Store, error) {
	s := assemble(&engine{fs: fs, dir: dir, o: o.withDefaults(fs), closing: make(chan struct{})})
	s.near.init(s.o.NearBytes)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, s.explain(err))
	}
	return s, nil
}

// assemble makes the parts of a store over an engine that is not open yet.
func assemble(e *engine) *Store {
	s := &Store{engine: e, Tables: &Tables{engine: e}, disk: &disk{engine: e}, Directory: &Directory{engine: e},
		Records: &Records{e}}
	s.rows = &rows{engine: e, Tables: s.Tables}
	s.rows.init(&e.o)
	s.learner = &learner{e, s.rows, s.Records}
	s.Reader = &Reader{e, s.rows}
	s.Writer = &Writer{e, s.rows, s.disk}
	s.Sweeper = &Sweeper{e, s.rows, s.Records}
	s.Snapshots = &Snapshots{engine: e, rows: s.rows, disk: s.disk, learner: s.learner, Records: s.Records,
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

// openClaimed opens a directory that no other process can open now.
func (s *Store) openClaimed() error {
	exists, err := s.identify()
	if err != nil {
		return err
	}
	if err := manifest.Check(s.fs, s.dir); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !s.o.ReadOnly {
		if err := guard.Room(s.fs, s.dir, s.o.DiskUsage); err != nil {
			return err
		}
	}
	s.o.MemtableBytes = guard.Memtable(s.o.DiskUsage, s.dir, s.o.MemtableBytes)
	s.guard = guard.New(s.fs, s.dir, guard.Options{Usage: s.o.DiskUsage, Keep: s.keptFree, Broken: s.broken,
		Reserve: s.o.Reserve})
	po := pebbleOptions(s.guard, s.o)
	po.FormatMajorVersion = pebbleFormat(s.Level())
	po.Lock, po.ErrorIfNotExists = s.lock, exists
	po.Logger, po.EventListener = logger{s.engine}, s.listener()
	err = manifest.CheckOptions(s.fs, s.dir, po)
	if err == nil {
		err = manifest.CheckLogs(s.fs, s.dir)
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
	s.guard.Opened()
	return nil
}

// start loads what is kept in memory and begins the background work.
func (s *Store) start(exists bool) error {
	if !exists {
		if err := s.db.LogData(nil, pebble.Sync); err != nil {
			return err
		}
		// Pebble's first log does not say up to where it was synced: damage in it could not be told.
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
	s.wg.Go(s.learnDeadRuns)
	s.wg.Go(s.reclaim)
	return nil
}

// Close ends the background work and closes the store. What was applied is synced and flushed, so that the next Open
// has no log to replay. No other call may be under way.
func (s *Store) Close() error {
	close(s.closing)
	s.guard.Close()
	s.wg.Wait()
	var err error
	if !s.o.ReadOnly && s.Err() == nil {
		err = s.db.Flush()
	}
	err = errors.Join(err, s.db.Close())
	return errors.Join(err, s.lock.Close())
}

// Checkpoint writes a consistent copy of the store to dir, which must not exist; files are linked where possible.
func (s *Store) Checkpoint(dir string) error {
	if err := s.guard.Checkpoint(s.db, dir); err != nil {
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

// Compact flushes the memtable and merges all levels; it takes as long as the store is large.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.Flush(); err != nil {
		return err
	}
	if err := s.db.Compact(ctx, []byte{0}, bytes.Repeat([]byte{0xff}, 8), true); err != nil {
		return s.check(fmt.Errorf("compact: %w", err))
	}
	return nil
}
