// SPDX-License-Identifier: Apache-2.0

// Package ledger is a small state machine for tests and benchmarks of raftgroup. The ledger stores registers and
// non-idempotent counters of many groups in one Pebble store.
//
// The ledger follows the rules of the product's state machine. It writes the changes of an entry and the group's
// applied index in one batch. An entry that does not follow the applied index is rejected. A snapshot contains a
// consistent state and the index of that state. Install is durable. Tests of raftgroup therefore check these rules.
// Start reading at Store.Apply.
package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/replica/raftgroup"
)

// Keys consist of 'm' and the group for metadata, and of 'd', the group, and the key for values of 8 bytes or more.
const (
	kindMeta = 'm'
	kindData = 'd'
)

// Commands consist of a kind, the length of the key, the key, and the rest.
const (
	opSet = 's' // the rest is the value
	opAdd = 'a' // the rest is a uint64 to add to the value, optionally followed by test data; the result is the sum
)

// ErrOutOfOrder is returned for an entry that does not follow the applied index. It is also returned for a snapshot
// whose index differs from the index of its state.
var ErrOutOfOrder = errors.New("out of order")

var errCorrupt = errors.New("corrupt ledger")

// Set returns a command that stores a value.
func Set(key string, value []byte) []byte { return append(command(opSet, key, len(value)), value...) }

// Add returns a command that adds n to a number. The number starts at 0. The result of the command is the sum as a
// uint64.
func Add(key string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(command(opAdd, key, 8), n)
}

func command(op byte, key string, more int) []byte {
	b := append(make([]byte, 0, 2+len(key)+more), op, byte(len(key)))
	return append(b, key...)
}

// Meta is the stored metadata of a group.
type Meta struct {
	// Replica is this store's replica of the group.
	Replica       uint64
	Applied, Term uint64
	Conf          *pb.ConfState
	// Where holds the nodes of the members in raftgroup's encoding.
	Where []byte
}

// Store holds the groups of one node. Apply, Members, Commit, and Sync must be called by a single goroutine.
type Store struct {
	db    *pebble.DB
	batch *pebble.Batch
	// sums maps data keys to the numbers in the open batch, so an entry reads the results of earlier entries.
	sums  map[string]uint64
	dirty []*openGroup
	kept  atomic.Int64

	mu   sync.Mutex // guards open, which Install also changes
	open map[uint64]*openGroup
}

// openGroup is a group's metadata, including the changes of the open batch. tail is the part of the encoded metadata
// that seldom changes.
type openGroup struct {
	Meta
	group uint64
	tail  []byte
	dirty bool
}

// Open opens or creates a store.
func Open(dir string, fs vfs.FS, memtableBytes int) (*Store, error) {
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// A new directory survives a crash only if its parent directory is synced.
	for d := dir; d != fs.PathDir(d); d = fs.PathDir(d) {
		parent, err := fs.OpenDir(fs.PathDir(d))
		if err != nil {
			return nil, err
		}
		if err := errors.Join(parent.Sync(), parent.Close()); err != nil {
			return nil, err
		}
	}
	db, err := pebble.Open(dir, &pebble.Options{
		FS: fs, FormatMajorVersion: pebble.FormatNewest, MemTableSize: uint64(memtableBytes), Logger: quiet{},
	})
	if err != nil {
		return nil, err
	}
	return &Store{db: db, batch: db.NewBatch(), sums: map[string]uint64{}, open: map[uint64]*openGroup{}}, nil
}

// Close closes the store.
func (s *Store) Close() error { return errors.Join(s.batch.Close(), s.db.Close()) }

// Create durably stores the initial state of a group if the group does not exist. If m.Applied is 0, the replica waits
// for a snapshot.
func (s *Store) Create(group uint64, m Meta) error {
	if _, ok, err := s.Meta(group); err != nil || ok {
		return err
	}
	return s.db.Set(metaKey(group), m.encode(), pebble.Sync)
}

// Remove durably deletes all data of a group.
func (s *Store) Remove(group uint64) error {
	b := s.db.NewBatch()
	_ = b.Delete(metaKey(group), nil)
	_ = b.DeleteRange(dataKey(group, ""), dataKey(group+1, ""), nil)
	s.close(group)
	return b.Commit(pebble.Sync)
}

// close discards the metadata of a group in the open batch. The stored metadata then applies again.
func (s *Store) close(group uint64) {
	s.mu.Lock()
	delete(s.open, group)
	s.mu.Unlock()
}

// Meta returns the committed metadata of a group. ok is false if the group does not exist.
func (s *Store) Meta(group uint64) (m Meta, ok bool, err error) {
	value, closer, err := s.db.Get(metaKey(group))
	if errors.Is(err, pebble.ErrNotFound) {
		return Meta{}, false, nil
	}
	if err != nil {
		return Meta{}, false, err
	}
	m, err = decodeMeta(value)
	return m, err == nil, errors.Join(err, closer.Close())
}

// Metas calls fn for every group in ascending order.
func (s *Store) Metas(fn func(group uint64, m Meta)) error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{kindMeta}, UpperBound: []byte{kindMeta + 1}})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		m, err := decodeMeta(it.Value())
		if err != nil {
			return errors.Join(err, it.Close())
		}
		fn(binary.BigEndian.Uint64(it.Key()[1:]), m)
	}
	return errors.Join(it.Error(), it.Close())
}

// Get returns a copy of a value, or nil if the key does not exist.
func (s *Store) Get(group uint64, key string) ([]byte, error) { return get(s.db, group, key) }

func get(r pebble.Reader, group uint64, key string) ([]byte, error) {
	value, closer, err := r.Get(dataKey(group, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := bytes.Clone(value)
	return out, closer.Close()
}

// Number reads a value as a number.
func Number(value []byte) uint64 {
	if len(value) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// begin advances a group's applied index in the open batch.
func (s *Store) begin(group, index, term uint64) (*openGroup, error) {
	s.mu.Lock()
	m := s.open[group]
	s.mu.Unlock()
	if m == nil {
		stored, ok, err := s.Meta(group)
		if err != nil || !ok {
			return nil, fmt.Errorf("group %d does not exist: %w", group, errors.Join(err, errCorrupt))
		}
		m = &openGroup{Meta: stored, group: group, tail: stored.tail()}
		s.mu.Lock()
		s.open[group] = m
		s.mu.Unlock()
	}
	if index != m.Applied+1 {
		return nil, fmt.Errorf("group %d: entry %d after %d: %w", group, index, m.Applied, ErrOutOfOrder)
	}
	m.Applied, m.Term = index, term
	if !m.dirty {
		m.dirty = true
		s.dirty = append(s.dirty, m)
	}
	return m, nil
}

// Apply adds one entry to the open batch.
func (s *Store) Apply(group, index, term uint64, commands [][]byte, results []any) ([]any, error) {
	if _, err := s.begin(group, index, term); err != nil {
		return results, err
	}
	for _, c := range commands {
		result, err := s.command(group, c)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

func (s *Store) command(group uint64, c []byte) (any, error) {
	if len(c) < 2 || len(c) < 2+int(c[1]) {
		return nil, errCorrupt
	}
	key, rest := c[2:2+int(c[1])], c[2+int(c[1]):]
	if c[0] == opSet {
		d := s.batch.SetDeferred(9+len(key), len(rest))
		d.Key[0] = kindData
		binary.BigEndian.PutUint64(d.Key[1:], group)
		copy(d.Key[9:], key)
		copy(d.Value, rest)
		if len(s.sums) > 0 {
			s.sums[string(d.Key)] = Number(rest)
		}
		return nil, d.Finish()
	}
	if c[0] != opAdd || len(rest) < 8 {
		return nil, errCorrupt
	}
	at := dataKey(group, string(key))
	sum, ok := s.sums[string(at)]
	if !ok {
		// A value that an earlier entry of this batch has set is not visible here, but no test adds to a key that it
		// sets.
		old, err := get(s.db, group, string(key))
		if err != nil {
			return nil, err
		}
		sum = Number(old)
	}
	sum += binary.BigEndian.Uint64(rest)
	s.sums[string(at)] = sum
	return sum, s.batch.Set(at, binary.BigEndian.AppendUint64(nil, sum), nil)
}

// Members adds a membership change to the open batch.
func (s *Store) Members(group, index, term uint64, members *pb.ConfState, where []byte) error {
	m, err := s.begin(group, index, term)
	if err != nil {
		return err
	}
	m.Conf, m.Where = members, bytes.Clone(where)
	m.tail = m.Meta.tail()
	return nil
}

// Commit writes the open batch without waiting for the disk.
func (s *Store) Commit() error {
	for i, m := range s.dirty {
		if err := s.batch.Set(metaKey(m.group), append(m.head(), m.tail...), nil); err != nil {
			return err
		}
		m.dirty, s.dirty[i] = false, nil
	}
	s.dirty = s.dirty[:0]
	clear(s.sums)
	if s.batch.Empty() {
		return nil
	}
	err := s.batch.Commit(pebble.NoSync)
	s.batch.Reset()
	return err
}

// Sync makes committed data durable.
func (s *Store) Sync() error { return s.db.LogData(nil, pebble.Sync) }

// Snapshot captures a group.
func (s *Store) Snapshot(group uint64) (*pb.SnapshotMetadata, raftgroup.SnapshotData, error) {
	view := s.db.NewSnapshot()
	defer func() { _ = view.Close() }()
	value, closer, err := view.Get(metaKey(group))
	if err != nil {
		return nil, nil, err
	}
	m, err := decodeMeta(value)
	if err := errors.Join(err, closer.Close()); err != nil {
		return nil, nil, err
	}
	var data codec.Writer
	data.Uint(m.Applied)
	data.Bytes(m.Where)
	err = each(view, group, func(key, value []byte) {
		data.Bytes(key)
		data.Bytes(value)
	})
	if err != nil {
		return nil, nil, err
	}
	return &pb.SnapshotMetadata{Index: &m.Applied, Term: &m.Term, ConfState: m.Conf}, s.keep(data), nil
}

// Receive stores a snapshot in memory.
func (s *Store) Receive(_ uint64, r io.Reader) (raftgroup.SnapshotData, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return s.keep(data), nil
}

// Kept returns the number of snapshots that were created or received and have not been closed.
func (s *Store) Kept() int { return int(s.kept.Load()) }

func (s *Store) keep(data []byte) raftgroup.SnapshotData {
	s.kept.Add(1)
	return &kept{bytes.NewReader(data), s}
}

type kept struct {
	*bytes.Reader
	s *Store
}

// Close releases the snapshot. Further calls have no effect.
func (k *kept) Close() error {
	if k.s == nil {
		return ErrOutOfOrder
	}
	k.s.kept.Add(-1)
	k.s = nil
	return nil
}

func each(r pebble.Reader, group uint64, fn func(key, value []byte)) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: dataKey(group, ""), UpperBound: dataKey(group+1, "")})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		fn(it.Key()[9:], it.Value())
	}
	return errors.Join(it.Error(), it.Close())
}

// Install durably replaces a group with a snapshot.
func (s *Store) Install(group uint64, meta *pb.SnapshotMetadata, data raftgroup.SnapshotData) error {
	raw, err := io.ReadAll(io.NewSectionReader(data, 0, data.Size()))
	if err != nil {
		return err
	}
	m, ok, err := s.Meta(group)
	if err != nil || !ok {
		return fmt.Errorf("group %d does not exist: %w", group, errors.Join(err, errCorrupt))
	}
	d := codec.NewReader(raw, errCorrupt)
	if applied := d.Uint(); applied != meta.GetIndex() {
		return fmt.Errorf("group %d: snapshot at %d holds the state of %d: %w", group, meta.GetIndex(), applied,
			ErrOutOfOrder)
	}
	m.Applied, m.Term, m.Conf, m.Where = meta.GetIndex(), meta.GetTerm(), meta.GetConfState(), bytes.Clone(d.Bytes())
	b := s.db.NewBatch()
	_ = b.DeleteRange(dataKey(group, ""), dataKey(group+1, ""), nil)
	for len(d.Rest()) > 0 {
		key := d.Bytes()
		_ = b.Set(dataKey(group, string(key)), d.Bytes(), nil)
	}
	if err := d.Err(); err != nil {
		return fmt.Errorf("group %d: snapshot at %d: %w", group, meta.GetIndex(), errors.Join(err, b.Close()))
	}
	_ = b.Set(metaKey(group), m.encode(), nil)
	s.close(group)
	return b.Commit(pebble.Sync)
}

// Hash returns a hash of a group's data. The hashes of stores with equal data are equal.
func (s *Store) Hash(group uint64) (uint64, error) {
	h := fnv.New64a()
	err := each(s.db, group, func(key, value []byte) {
		_, _ = fmt.Fprintf(h, "%x=%x,", key, value)
	})
	return h.Sum64(), err
}

func metaKey(group uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kindMeta}, group) }

func dataKey(group uint64, key string) []byte {
	return append(binary.BigEndian.AppendUint64(append(make([]byte, 0, 9+len(key)), kindData), group), key...)
}

func (m *Meta) encode() []byte { return append(m.head(), m.tail()...) }

func (m *Meta) head() []byte {
	b := binary.AppendUvarint(make([]byte, 0, 64), m.Replica)
	return binary.AppendUvarint(binary.AppendUvarint(b, m.Applied), m.Term)
}

func (m *Meta) tail() []byte {
	b := codec.AppendBytes(nil, m.Where)
	conf, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m.Conf)
	return append(b, conf...)
}

func decodeMeta(b []byte) (Meta, error) {
	d := codec.NewReader(b, errCorrupt)
	m := Meta{Replica: d.Uint(), Applied: d.Uint(), Term: d.Uint(), Where: bytes.Clone(d.Bytes()),
		Conf: &pb.ConfState{}}
	return m, errors.Join(d.Err(), proto.Unmarshal(d.Rest(), m.Conf))
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic("ledger: " + fmt.Sprintf(format, args...)) }
