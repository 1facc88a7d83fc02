// SPDX-License-Identifier: Apache-2.0

package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"

	"github.com/ilion-db/ilion/internal/model/feature"
	"github.com/ilion-db/ilion/internal/replica/diskfs"
	"github.com/ilion-db/ilion/internal/replica/pebblecheck"
)

// BlockCacheBytes is the size of the block cache. The store reads blocks only when a node starts or a follower lags far
// behind.
const BlockCacheBytes = 8 << 20

// Options configure a Store. The zero value is ready for use.
type Options struct {
	// FS is the file system. The default is the operating system's file system.
	FS vfs.FS
	// GroupCacheBytes is the maximum size of the cached entries of one group. The default is 1 MiB.
	GroupCacheBytes int64
	// NodeCacheBytes is the maximum size of the cached entries of all groups. The default is 256 MiB.
	NodeCacheBytes int64
	// MemtableBytes is the size of a memtable. The default is 64 MiB or less on a small disk.
	MemtableBytes int64
	// MaxOpenFiles is the maximum number of open tables. The default is 1000.
	MaxOpenFiles int
	// Reserve provides file descriptors when the process has reached its limit. If Reserve is nil, the store waits for
	// a free descriptor.
	Reserve *diskfs.Reserve
	// MustExist makes Open return ErrMissing if the directory is missing or empty.
	MustExist bool
	// ReadOnly makes the store reject all commits. It requires MustExist.
	ReadOnly bool
	// Owner is notified if the process must end because the write-ahead log cannot be written or is damaged. Writers
	// then block until the process ends. If Owner is nil, the store panics instead.
	Owner interface{ Fail(reason error) }
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.GroupCacheBytes == 0 {
		o.GroupCacheBytes = 1 << 20
	}
	if o.NodeCacheBytes == 0 {
		o.NodeCacheBytes = 256 << 20
	}
	if o.MemtableBytes == 0 {
		o.MemtableBytes = 64 << 20
	}
	return o
}

var (
	// ErrFormat means that this package has not written the directory. If a later build has written the directory, Open
	// returns a *feature.Newer instead.
	ErrFormat = errors.New("unknown raft log format")
	// ErrMissing means that a required log does not exist.
	ErrMissing = errors.New("the raft log does not exist")
	// ErrCorrupt means that a record is damaged.
	ErrCorrupt = errors.New("corrupt raft log")
	// ErrStopped means that the store has stopped after a failed commit.
	ErrStopped = errors.New("raft log stopped")
)

// Store holds the logs of all groups of a node. It is safe for concurrent use; see Batch for writers.
type Store struct {
	db     *pebble.DB
	opts   Options
	diskFS *diskfs.FS

	mu     sync.RWMutex
	groups map[uint64]*Group

	cached atomic.Int64 // bytes in cached entries of all groups
	// evictMu guards ring and hand. ring holds the groups in the order in which they were opened. hand is the index of
	// the next group whose cache will be evicted.
	evictMu sync.Mutex
	ring    []*Group
	hand    int

	failure atomic.Pointer[error] // set after a failed commit (RL5)
	syncs   atomic.Uint64
	commits atomic.Uint64
}

// pebbleFormat is the format version of Pebble's files at feature level 1. The previous Ilion build could not open a
// directory with the newest format version.
const pebbleFormat = pebble.FormatValueSeparation

// Open opens the store in dir. If the store does not exist, Open durably creates it.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if _, err := o.FS.Stat(dir); o.MustExist && errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open raft log: %w in %s", ErrMissing, dir)
	}
	if err := prepare(dir, &o); err != nil {
		return nil, fmt.Errorf("open raft log: %w", err)
	}
	s := &Store{opts: o, groups: map[uint64]*Group{}}
	s.diskFS = diskfs.New(o.FS, dir, diskfs.Options{Logger: logger{s}, Reserve: o.Reserve})
	cache := pebble.NewCache(BlockCacheBytes)
	defer cache.Unref()
	po := &pebble.Options{
		FS:                          s.diskFS,
		Cache:                       cache,
		FormatMajorVersion:          pebbleFormat,
		MemTableSize:                uint64(diskfs.MemtableBytes(o.FS.GetDiskUsage, dir, o.MemtableBytes)),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       1000,
		Logger:                      logger{s},
		EventListener:               &pebble.EventListener{DataCorruption: s.damaged},
		ErrorIfNotExists:            o.MustExist,
		ReadOnly:                    o.ReadOnly,
		MaxOpenFiles:                o.MaxOpenFiles,
	}
	err := pebblecheck.CheckOptions(o.FS, dir, po)
	if err == nil {
		err = pebblecheck.CheckLogs(o.FS, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open raft log: %w", err)
	}
	db, err := pebble.Open(dir, po)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		err = fmt.Errorf("%w in %s", ErrMissing, dir)
	}
	if named, damaged := pebblecheck.NameLogs(o.FS, dir, err); damaged {
		err = fmt.Errorf("%w: %w", ErrCorrupt, named)
	}
	if err != nil {
		return nil, fmt.Errorf("open raft log in %s: %w", dir, err)
	}
	s.db = db
	if err := s.checkFormat(); err != nil {
		if failed := s.Failed(); failed != nil {
			err = failed // this error is a single line that contains the file name
		}
		return nil, errors.Join(err, db.Close())
	}
	s.diskFS.MarkOpen()
	return s, nil
}

// prepare creates the directory, checks the manifest, and checks the free disk space.
func prepare(dir string, o *Options) error {
	if o.ReadOnly {
		return pebblecheck.Check(o.FS, dir)
	}
	if err := makeDir(o.FS, dir); err != nil {
		return err
	}
	if err := pebblecheck.Check(o.FS, dir); err != nil {
		return err
	}
	return diskfs.CheckFreeSpace(o.FS, dir, nil)
}

// makeDir creates dir and its parents, and syncs the parent of every new directory.
func makeDir(fs vfs.FS, dir string) error {
	var missing []string
	for d := dir; ; d = path.Dir(d) {
		if _, err := fs.Stat(d); err == nil || d == path.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, d := range missing {
		parent, err := fs.OpenDir(path.Dir(d))
		if err != nil {
			return err
		}
		if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
			return err
		}
	}
	return nil
}

// checkFormat writes the format into an empty store and rejects a store with another format.
func (s *Store) checkFormat() error {
	value, closer, err := s.db.Get(formatKey)
	switch {
	case err == nil:
		return errors.Join(readFormat(string(value)), closer.Close())
	case !errors.Is(err, pebble.ErrNotFound):
		return err
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return err
	}
	if !empty {
		return ErrFormat
	}
	if err := s.db.Set(formatKey, []byte(formatName+strconv.Itoa(formatNumber)), pebble.Sync); err != nil {
		return err
	}
	return s.db.Flush() // Pebble cannot detect damage in its first log
}

// readFormat rejects formats that this build does not support.
func readFormat(value string) error {
	number, ours := strings.CutPrefix(value, formatName)
	n, err := strconv.ParseUint(number, 10, 32)
	switch {
	case !ours || err != nil || n < formatNumber:
		return ErrFormat
	case n > formatNumber:
		return &feature.Newer{What: "the raft log", Unit: "format", Has: n, Newest: formatNumber}
	}
	return nil
}

// Label returns the label stored by SetLabel, or nil.
func (s *Store) Label() ([]byte, error) {
	value, closer, err := s.db.Get(labelKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the raft log header: %w", err)
	}
	label := append([]byte{}, value...)
	return label, closer.Close()
}

// SetLabel durably stores a label that identifies the owner of the logs.
func (s *Store) SetLabel(label []byte) error {
	if err := s.db.Set(labelKey, label, pebble.Sync); err != nil {
		return s.fail(fmt.Errorf("header: %w", err))
	}
	return nil
}

// Close closes the store. No other call may be in progress.
func (s *Store) Close() error {
	s.diskFS.Close()
	return s.db.Close()
}

// Group returns the log of a group. If the group has no records, the log is empty, with index 0 and term 0.
func (s *Store) Group(id uint64) (*Group, error) {
	if id == 0 {
		return nil, errors.New("group 0 is invalid")
	}
	s.mu.RLock()
	g := s.groups[id]
	s.mu.RUnlock()
	if g != nil {
		return g, nil
	}
	g, err := s.load(id)
	if err != nil {
		return nil, fmt.Errorf("load group %d: %w", id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other := s.groups[id]; other != nil {
		return other, nil
	}
	s.groups[id] = g
	s.evictMu.Lock()
	s.ring = append(s.ring, g)
	s.evictMu.Unlock()
	return g, nil
}

// Storage returns the result of Group as the library's interface.
func (s *Store) Storage(group uint64) (raft.Storage, error) {
	g, err := s.Group(group)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Installing returns the result of Group.Installing for a group.
func (s *Store) Installing(group uint64) (uint64, error) {
	g, err := s.Group(group)
	if err != nil {
		return 0, err
	}
	return g.Installing(), nil
}

// Groups returns the IDs of all groups with records, in ascending order.
func (s *Store) Groups() ([]uint64, error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for ok := it.SeekGE(groupKey(1)); ok; {
		id := groupOf(it.Key())
		out = append(out, id)
		if id+1 == 0 {
			break
		}
		ok = it.SeekGE(groupKey(id + 1))
	}
	return out, errors.Join(it.Error(), it.Close())
}

// forget drops a destroyed group from memory.
func (s *Store) forget(g *Group) {
	s.mu.Lock()
	if s.groups[g.id] == g {
		delete(s.groups, g.id)
	}
	s.mu.Unlock()
	s.evictMu.Lock()
	for i, o := range s.ring {
		if o == g {
			s.ring = append(s.ring[:i], s.ring[i+1:]...)
			break
		}
	}
	s.evictMu.Unlock()
	g.evict()
}

// evictCaches drops the caches of groups, one after the other, until the cached entries are within the node's limit.
func (s *Store) evictCaches() {
	if s.cached.Load() <= s.opts.NodeCacheBytes {
		return
	}
	s.evictMu.Lock()
	defer s.evictMu.Unlock()
	for n := len(s.ring); n > 0 && s.cached.Load() > s.opts.NodeCacheBytes; n-- {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		s.ring[s.hand].evict()
		s.hand++
	}
}

// Failed returns the reason why the store rejects writes, or nil.
func (s *Store) Failed() error {
	if p := s.failure.Load(); p != nil {
		return *p
	}
	return nil
}

func (s *Store) fail(cause error) error {
	err := fmt.Errorf("%w: %w", ErrStopped, cause)
	s.failure.CompareAndSwap(nil, &err)
	return s.Failed()
}

// Metrics holds counters since Open and the current memory use.
type Metrics struct {
	Commits, Syncs uint64
	CachedBytes    int64
}

// Metrics returns the current metrics.
func (s *Store) Metrics() Metrics {
	return Metrics{Commits: s.commits.Load(), Syncs: s.syncs.Load(), CachedBytes: s.cached.Load()}
}

// logger logs only fatal messages. Pebble calls Fatalf if its log cannot be written. Fatalf must not return.
type logger struct{ s *Store }

func (logger) Infof(string, ...any)                {}
func (logger) Errorf(string, ...any)               {}
func (l logger) Fatalf(format string, args ...any) { l.s.broken(fmt.Sprintf(format, args...)) }

// damaged permanently stops the store like broken, with a one-line message instead of Pebble's stack trace. If
// Options.Owner is nil, damaged returns, and the read that has found the damage fails.
func (s *Store) damaged(info pebble.DataCorruptionInfo) {
	details, _, _ := strings.Cut(info.Details.Error(), "\n")
	err := s.fail(fmt.Errorf("%w: %s: %s", ErrCorrupt, info.Path, details))
	if s.opts.Owner == nil {
		return
	}
	s.opts.Owner.Fail(err)
	select {}
}

// broken permanently stops the store and never returns. Pebble must not receive the error, because it would end the
// process with a stack trace. Callers block until the owner ends the process.
func (s *Store) broken(text string) {
	err := s.fail(errors.New(strings.TrimPrefix(text, "pebble: ")))
	if s.opts.Owner == nil {
		panic(err)
	}
	s.opts.Owner.Fail(err)
	select {}
}
