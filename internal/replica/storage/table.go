// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/cqltype"
	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
	"github.com/ilion-db/ilion/internal/model/vector"
)

// Table contains the properties of a table that a store cannot derive from the rows. They determine how long the store
// retains deletions and which data a sweep may remove. A Table does not affect the visible result of a command (ST3).
type Table struct {
	ID uint32
	// Clustering is the number of clustering columns. If Clustering is 0, every partition has at most one row, which a
	// single Get reads.
	Clustering int
	// GCGrace is the retention time of deletions, in seconds.
	GCGrace int64
	// Dropped contains the dropped columns in ascending order.
	Dropped []cqltype.Dropped
	// Indexes contains the table's indexes.
	Indexes []Index
	// Lifetimes determines when rows with a lifetime expire.
	Lifetimes row.Lifetimes
	// StampsAbove is a lower bound for the timestamps of conditional writes. The change log is incomplete up to this
	// timestamp.
	StampsAbove int64
}

// index returns the index with the given ID, or nil if the table has no such index.
func (t *Table) index(id uint32) *Index {
	for i := range t.Indexes {
		if t.Indexes[i].ID == id {
			return &t.Indexes[i]
		}
	}
	return nil
}

// Index determines how a sweep checks an entry against its row.
type Index struct {
	ID uint32
	// Hints reports whether the entries are hints for a view. Hints are removed through the log after the view has been
	// updated.
	Hints bool
	// Holds reports whether a row or a static row has the value of an entry. For hints of view keys, Holds checks the
	// view's key column.
	Holds func(r *row.Row, value []byte) bool
	// Value returns the indexed value of a row, of the same kind as like, or nil if the row has no such value. It is
	// set only for an ordered index.
	Value func(r *row.Row, like []byte) []byte
	// Lists contains the vector lists in use, newest first. Column is the column that contains the vectors. Both are
	// set only for a vector index.
	Lists  []*vector.Lists
	Column uint32
}

// table is the store's state of one table.
type table struct {
	id uint32
	// flags indicate which kinds of keys may exist in addition to rows. A flag is set in memory and in the log before
	// the first key of its kind is written. Flags are never reset.
	flags atomic.Uint32
	// installed is nil until InstallTable is called.
	installed atomic.Pointer[Table]
}

// expired determines which rows with a lifetime have expired at the second now.
func (t *table) expired(now int64) row.Expired {
	if in := t.installed.Load(); in != nil {
		return in.Lifetimes.At(now)
	}
	return row.Expired{}
}

// Flags of tables are stored under keys.FlagsID.
const (
	// flagDeletions is set if deletions of partitions or ranges may exist.
	flagDeletions uint32 = 1
	// flagStatics is set if static rows may exist.
	flagStatics uint32 = 2
	flagsKnown         = flagDeletions | flagStatics
)

// may reports whether at least one of the given flags is set.
func (t *table) may(flags uint32) bool { return t.flags.Load()&flags != 0 }

// Tables holds the store's state of all tables. Lookups need no lock, because adding a table replaces the map.
type Tables struct {
	*engine
	byID atomic.Pointer[map[uint32]*table]
	mu   sync.Mutex
	// next is the argument of the last KnowIDs.
	next atomic.Uint32
}

// StampsAbove returns Table.StampsAbove, or 0 for a table that is not installed.
func (s *Tables) StampsAbove(id uint32) int64 {
	if t := (*s.byID.Load())[id]; t != nil {
		if installed := t.installed.Load(); installed != nil {
			return installed.StampsAbove
		}
	}
	return 0
}

// table returns the entry of a table and adds the entry if necessary.
func (s *Tables) table(id uint32) *table {
	if t := (*s.byID.Load())[id]; t != nil {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.byID.Load()
	if t := old[id]; t != nil {
		return t
	}
	t := &table{id: id}
	m := maps.Clone(old)
	m[id] = t
	s.byID.Store(&m)
	return t
}

// lookupTable returns the entry of a table, or a new empty entry that it does not add. Reads use lookupTable, because
// they must not add entries of dropped tables.
func (s *Tables) lookupTable(id uint32) *table {
	if t := (*s.byID.Load())[id]; t != nil {
		return t
	}
	return &table{id: id}
}

// InstallTable installs a new or changed table in the store.
func (s *Tables) InstallTable(t Table) { s.table(t.ID).installed.Store(&t) }

// ForgetTable reverts InstallTable when a table is dropped. The store removes the rest of the table's state when this
// node has no replica of the table.
func (s *Tables) ForgetTable(id uint32) {
	if t := (*s.byID.Load())[id]; t != nil {
		t.installed.Store(nil)
	}
}

// forgetDropped removes the entries of dropped tables that have no replica on this node. held returns the spans of a
// table that the replicas of this node own.
func (s *Tables) forgetDropped(held func(table uint32) ([]keys.Span, error)) error {
	next := s.next.Load() // read next before the tables, because tables below next were installed earlier
	dropped := func(id uint32, t *table) bool {
		return t.installed.Load() == nil && isTable(id) && id&^(keys.WideRing|keys.WholeKey) < next
	}
	var gone []uint32
	for id, t := range *s.byID.Load() {
		if !dropped(id, t) {
			continue
		}
		spans, err := held(id)
		if err != nil {
			return err
		}
		if len(spans) == 0 {
			gone = append(gone, id)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := maps.Clone(*s.byID.Load())
	b := s.db.NewBatch()
	defer b.Close()
	for _, id := range gone {
		delete(m, id)
		key := keys.AppendSystem(nil, keys.FlagsID, binary.BigEndian.AppendUint32(nil, id))
		if err := b.Delete(key, nil); err != nil {
			return err
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("delete the records of dropped tables: %w", err)
	}
	s.byID.Store(&m)
	return nil
}

// KnowIDs records that all tables and indexes with IDs below next have been installed or dropped. It must be called
// after InstallTable. Before the first call, the store treats all IDs as known.
func (s *Tables) KnowIDs(next uint32) { s.next.Store(next) }

// ErrBehind rejects a snapshot while the store has entries of an unknown index. Such entries exist if the node has
// applied data that was written with a newer schema. A snapshot would lack these entries.
var ErrBehind = errors.New("the store contains entries of an unknown index")

// knowsIndexes returns ErrBehind if the store has entries of an index with an ID of next or above.
func (s *engine) knowsIndexes(next uint32) error {
	if next == 0 {
		return nil
	}
	ids, err := s.indexes()
	for _, id := range ids {
		if id&^(keys.OrderedIndex|keys.HintSpace) >= next {
			return ErrBehind
		}
	}
	return err
}

// indexes returns the IDs of all indexes that have entries.
func (s *engine) indexes() ([]uint32, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: keys.AppendTable(nil, keys.IndexSpace),
		UpperBound: keys.AppendTable(nil, 2*keys.IndexSpace)})
	if err != nil {
		return nil, s.check(err)
	}
	var out []uint32
	for valid := it.First(); valid; {
		id := keys.ID(it.Key())
		out = append(out, id&^keys.IndexSpace)
		valid = it.SeekGE(keys.AppendTable(nil, id+1))
	}
	return out, s.check(errors.Join(it.Error(), it.Close()))
}

// loadTables loads the flags of all tables.
func (s *Tables) loadTables(records *Records) error {
	m := map[uint32]*table{}
	s.byID.Store(&m)
	return records.Scan(keys.FlagsID, nil, func(sub, value []byte) error {
		if len(sub) != 4 || len(value) != 1 || uint32(value[0])&^flagsKnown != 0 {
			return fmt.Errorf("flags of a table: %w", errDamage)
		}
		t := &table{id: binary.BigEndian.Uint32(sub)}
		t.flags.Store(uint32(value[0]))
		m[t.id] = t
		return nil
	})
}

// mark sets flags of a table. It must be called before the first key of the flag's kind is written. A crash can
// therefore never preserve such a key without the flag.
func (s *Tables) mark(id, flags uint32) error {
	t := s.table(id)
	if t.flags.Load()&flags == flags {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := t.flags.Load() | flags
	key := keys.AppendSystem(nil, keys.FlagsID, binary.BigEndian.AppendUint32(nil, id))
	if err := s.db.Set(key, []byte{byte(all)}, pebble.NoSync); err != nil {
		return s.check(fmt.Errorf("flags of table %d: %w", id, err))
	}
	t.flags.Store(all)
	return nil
}

// errDamage marks stored bytes that cannot be decoded although their checksums are correct.
var errDamage = errors.New("undecodable")

func isDamage(err error) bool {
	return errors.Is(err, errDamage) || errors.Is(err, row.ErrCorrupt) || errors.Is(err, keys.ErrCorrupt) ||
		errors.Is(err, keys.ErrReplicaCorrupt)
}
