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

// Table contains the properties of a table that a store cannot derive from the rows. These properties determine how
// long deletions are retained and which data may be swept. A Table does not affect the result of applying a command
// (ST3), except for sweeps, whose effect is not visible.
type Table struct {
	ID uint32
	// Clustering is the number of clustering columns. If it is 0, every partition has at most one row, which a
	// single Get reads.
	Clustering int
	// GCGrace is the time for which deletions are kept, in seconds.
	GCGrace int64
	// Dropped contains the dropped columns in ascending order.
	Dropped []cqltype.Dropped
	// Indexes contains the table's indexes.
	Indexes []Index
	// Lifetimes is the current setting that determines when rows with a lifetime expire.
	Lifetimes row.Lifetimes
	// StampsAbove is a lower bound for the timestamps of conditional writes. Up to this timestamp, the change log is
	// incomplete.
	StampsAbove int64
}

// index returns an index of the table, or nil if the table has no such index.
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
	// Hints reports whether the entries are hints for a view. They are removed through the log after the view has been
	// updated.
	Hints bool
	// Holds reports whether the row (or the static row) has the value. For hints of view keys, it reports whether the
	// row has the value in the view's key column.
	Holds func(r *row.Row, value []byte) bool
	// Value is set for an ordered index. It returns the value by which the row is found, among values of the same kind
	// as like, or nil if the row has no such value.
	Value func(r *row.Row, like []byte) []byte
	// Lists is set for a vector index. It contains the lists in use, newest first. Column is the column that contains
	// the vectors.
	Lists  []*vector.Lists
	Column uint32
}

// table is the store's state of one table.
type table struct {
	id uint32
	// flags indicate which keys may exist in addition to rows. They are set in memory and on disk before the first such
	// key is written, and are never reset.
	flags atomic.Uint32
	// installed is nil until InstallTable is called.
	installed atomic.Pointer[Table]
}

// expired determines which rows with a lifetime have expired at the second given as now, according to the current
// setting.
func (t *table) expired(now int64) row.Expired {
	if in := t.installed.Load(); in != nil {
		return in.Lifetimes.At(now)
	}
	return row.Expired{}
}

// These are the flags of tables, which are stored under keys.FlagsID.
const (
	// flagDeletions is set if deletions of partitions or ranges may exist.
	flagDeletions uint32 = 1
	// flagStatics is set if static rows may exist.
	flagStatics uint32 = 2
	flagsKnown         = flagDeletions | flagStatics
)

// may reports whether any of the given flags is set.
func (t *table) may(flags uint32) bool { return t.flags.Load()&flags != 0 }

// Tables holds the store's state of all tables. Lookups need no lock, because the map is replaced when a table is
// added.
type Tables struct {
	*engine
	byID atomic.Pointer[map[uint32]*table]
	mu   sync.Mutex // mu serializes changes
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

// table returns the entry of a table and adds it if necessary.
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

// lookupTable returns the entry of a table, or an empty entry that is not added. Read-only code uses lookupTable,
// because background work also reads data of tables that have been dropped and forgotten.
func (s *Tables) lookupTable(id uint32) *table {
	if t := (*s.byID.Load())[id]; t != nil {
		return t
	}
	return &table{id: id}
}

// InstallTable installs a new or changed table in the store.
func (s *Tables) InstallTable(t Table) { s.table(t.ID).installed.Store(&t) }

// ForgetTable reverts InstallTable when a table is dropped. The remaining state of the table is removed when this node
// has no replica of the table.
func (s *Tables) ForgetTable(id uint32) {
	if t := (*s.byID.Load())[id]; t != nil {
		t.installed.Store(nil)
	}
}

// forgetDropped removes the entries of dropped tables without a replica on this node. held returns the spans of a table
// that replicas of this node have.
func (s *Tables) forgetDropped(held func(table uint32) ([]keys.Span, error)) error {
	next := s.next.Load() // read before the tables: tables below next were installed before it was set
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

// KnowIDs records that all tables and indexes with IDs below next have been installed, except dropped tables and
// indexes. It must be called after InstallTable. Before the first call, all IDs are treated as known.
func (s *Tables) KnowIDs(next uint32) { s.next.Store(next) }

// ErrBehind rejects a snapshot while the store has entries of an unknown index of any table. A node may apply data that
// was written with a newer schema than its own. The snapshot would lack these entries, and its receiver would never
// find their rows. The node will receive the schema soon.
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

// mark records which keys a table may have in addition to rows. In the log, the record precedes the first such key. A
// crash can therefore never preserve the key without the flag.
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
