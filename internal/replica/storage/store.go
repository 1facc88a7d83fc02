// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Store is an open store. All methods may be used concurrently, but for Close.
type Store struct {
	fs   vfs.FS
	dir  string
	o    Options
	db   *pebble.DB
	lock *pebble.Lock
	// idMu is held while the identity changes.
	idMu  sync.Mutex
	id    Identity
	level atomic.Uint32 // feature.Level, that of id

	tables tables
	dead   deadRuns
	piles  piles
	// together is rangesTogether, but in tests.
	together int
	hot      hotKeys
	large    largeRows
	disk     diskWatch
	m        counters

	// gate is held shared by every commit. Whoever must know that no commit is under way takes it exclusively, for
	// microseconds: ApplySweep between reading a key and rewriting it, and the learner of dead runs at its start.
	gate sync.RWMutex
	// temps numbers temporary files.
	temps atomic.Uint64
	// arrivals is held while a snapshot is ingested, and while entries of partitions that nobody holds are removed.
	arrivals sync.Mutex
	// truncated is true if index entries may lead nowhere since the last walk over them.
	truncated atomic.Bool
	// weakened counts what took deletions out of headers: sweeps and truncations.
	weakened atomic.Uint64
	// inUse is true from the end of Open on.
	inUse atomic.Bool
	// failed is set once, when damage was found; nothing is served after that (T4).
	failed atomic.Pointer[error]
	// background goroutines end when closing is closed.
	closing chan struct{}
	wg      sync.WaitGroup
}

// Open opens the store in dir, creating it where there is none. Its errors fit on one line.
func Open(fs vfs.FS, dir string, o Options) (*Store, error) {
	s := &Store{fs: fs, dir: dir, o: o.withDefaults(fs), closing: make(chan struct{})}
	s.hot.seed, s.hot.after = maphash.MakeSeed(), collapseAfter
	s.large.seed, s.large.budget, s.large.waitMax = s.hot.seed, s.o.LargeRowBytes, s.o.LargeRowWait
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, s.explain(err))
	}
	return s, nil
}

// explain puts what an administrator can act on in front of an error of the operating system or of Pebble.
func (s *Store) explain(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("no permission to write there: %w", err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return fmt.Errorf("another process uses it: %w", err)
	case errors.Is(err, pebble.ErrDBDoesNotExist):
		return errors.New("its identity file is there but its data is not")
	case errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk), errors.Is(err, record.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the log (%s): %w", ErrCorrupt, s.logs(), err)
	case pebble.IsCorruptionError(err):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// logs names the files of the write-ahead log; Pebble does not say which of them is damaged.
func (s *Store) logs() string {
	names, _ := s.fs.List(s.dir)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") })
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func (s *Store) open() error {
	if !s.o.ReadOnly {
		if err := makeDir(s.fs, s.dir); err != nil {
			return err
		}
	}
	lock, err := pebble.LockDirectory(s.dir, s.fs)
	if err != nil {
		return lockError(err)
	}
	release := lock
	defer func() {
		if release != nil {
			_ = release.Close()
		}
	}()
	id, exists, err := readIdentity(s.fs, s.dir)
	if err != nil {
		return err
	}
	if exists {
		if want := s.o.Identity.Cluster; want != [16]byte{} && want != id.Cluster {
			return fmt.Errorf("it belongs to another cluster (%x, not %x)", id.Cluster, want)
		}
		if err := s.checkLevel(id.Level); err != nil {
			return err
		}
	} else {
		if s.o.ReadOnly {
			return errors.New("there is no data, and read-only creates none")
		}
		id = s.o.Identity.complete(s.o.Levels.Newest)
		if err := writeTemp(s.fs, s.dir, id); err != nil {
			return err
		}
	}
	s.o.MemtableBytes = s.memtableFor(s.o.MemtableBytes)
	po := pebbleOptions(logFS{s.fs, s}, s.o, s)
	po.FormatMajorVersion = pebbleFormat(id.Level)
	po.Lock, po.ErrorIfNotExists = lock, exists
	if s.db, err = pebble.Open(s.dir, po); err != nil {
		return err
	}
	s.id = id
	s.level.Store(uint32(id.Level))
	if err := s.start(exists); err != nil {
		return errors.Join(err, s.db.Close())
	}
	release = nil
	s.lock = lock
	s.inUse.Store(true)
	return nil
}

func lockError(err error) error {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EAGAIN) {
		return err // explain knows it
	}
	return fmt.Errorf("another process uses it: %w", err)
}

// start loads what is kept in memory and begins the background work.
func (s *Store) start(exists bool) error {
	if !exists {
		if err := s.db.LogData(nil, pebble.Sync); err != nil {
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
	if err := s.loadTables(); err != nil {
		return err
	}
	s.dead.init(s.o.DeadRunBytes)
	s.together = rangesTogether
	s.piles.init(s.together)
	if err := s.loadRuns(); err != nil {
		return err
	}
	s.checkDisk()
	s.wg.Go(s.watchDisk)
	s.wg.Go(s.learnDeadRuns)
	return nil
}

// Close ends the background work and closes the store. What was applied is synced and flushed, so that the next Open
// has no log to replay. No other call may be under way.
func (s *Store) Close() error {
	close(s.closing)
	s.wg.Wait()
	var err error
	if !s.o.ReadOnly && s.Err() == nil {
		err = s.db.Flush()
	}
	err = errors.Join(err, s.db.Close())
	return errors.Join(err, s.lock.Close())
}

// Identity returns whose data the store holds.
func (s *Store) Identity() Identity {
	s.idMu.Lock()
	defer s.idMu.Unlock()
	return s.id
}

// SetIdentity replaces the cluster and node ids, durably, when the store joins a cluster.
func (s *Store) SetIdentity(cluster, node [16]byte) error {
	s.idMu.Lock()
	defer s.idMu.Unlock()
	id := s.id
	id.Cluster, id.Node = cluster, node
	return s.writeIdentity(id)
}

// writeIdentity replaces the identity, durably. Its caller holds idMu.
func (s *Store) writeIdentity(id Identity) error {
	if err := writeTemp(s.fs, s.dir, id); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	if err := commitTemp(s.fs, s.dir); err != nil {
		return fmt.Errorf("write identity: %w", err)
	}
	s.id = id
	return nil
}

// Sync makes durable whatever was applied before the call (T1). Concurrent calls share one sync of the log.
func (s *Store) Sync() error {
	if err := s.Err(); err != nil {
		return err
	}
	s.m.syncs.Add(1)
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return s.check(fmt.Errorf("sync store: %w", err))
	}
	return nil
}

// Checkpoint writes a consistent copy of the store to dir, which must not exist; files are linked where possible.
func (s *Store) Checkpoint(dir string) error {
	if err := s.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return s.check(fmt.Errorf("checkpoint to %s: %w", dir, err))
	}
	if err := writeTemp(s.fs, dir, s.Identity()); err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, err)
	}
	if err := commitTemp(s.fs, dir); err != nil {
		return fmt.Errorf("checkpoint to %s: %w", dir, err)
	}
	return nil
}

// Flush writes the memtable to an sstable.
func (s *Store) Flush() error { return s.check(s.db.Flush()) }

// Err returns why the store stopped serving, nil while it serves.
func (s *Store) Err() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// stop ends serving for good.
func (s *Store) stop(err error) {
	if s.failed.CompareAndSwap(nil, &err) && s.o.Events.Corrupt != nil {
		s.o.Events.Corrupt(err)
	}
}

// check looks for damage in an error from Pebble or from decoding.
func (s *Store) check(err error) error {
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
