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

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Table tells a store what it cannot see in the rows: how long deletions are kept, and what may be swept. It says nothing that
// changes the result of applying a command (T3), except to sweeps, whose effect nobody sees.
type Table struct {
	ID uint32
	// Clustering is the number of clustering columns; with none, every partition has at most one row, found by a single Get.
	Clustering int
	// GCGrace is how long deletions are kept, in seconds.
	GCGrace int64
	// Dropped are the ids of dropped columns, ascending.
	Dropped []uint32
	// Indexes are the table's indexes.
	Indexes []Index
}

// Index tells a sweep how to check an entry against its row.
type Index struct {
	ID uint32
	// Holds reports whether the row (or the static row) has the value.
	Holds func(r *row.Row, value []byte) bool
}

// table is what the store knows about one table.
type table struct {
	id uint32
	// headers is true once a header may exist. It is set, here and on disk, before the first header is written, and never reset.
	headers atomic.Bool
	// installed is nil until InstallTable.
	installed atomic.Pointer[Table]
}

// The flags stored under keys.FlagsID.
const flagHeaders = 1

// tables finds a table without a lock; the map is replaced when one is added.
type tables struct {
	byID atomic.Pointer[map[uint32]*table]
	mu   sync.Mutex // serializes changes
}

// table returns what is known about a table, adding it where needed.
func (s *Store) table(id uint32) *table {
	if t := (*s.tables.byID.Load())[id]; t != nil {
		return t
	}
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	old := *s.tables.byID.Load()
	if t := old[id]; t != nil {
		return t
	}
	t := &table{id: id}
	m := maps.Clone(old)
	m[id] = t
	s.tables.byID.Store(&m)
	return t
}

// InstallTable tells the store about a table, or about a change of it.
func (s *Store) InstallTable(t Table) { s.table(t.ID).installed.Store(&t) }

// ForgetTable undoes InstallTable when a table is dropped.
func (s *Store) ForgetTable(id uint32) { s.table(id).installed.Store(nil) }

func (s *Store) loadTables() error {
	m := map[uint32]*table{}
	s.tables.byID.Store(&m)
	return s.Scan(keys.FlagsID, nil, func(sub, value []byte) error {
		if len(sub) != 4 || len(value) != 1 {
			return fmt.Errorf("flags of a table: %w", errDamage)
		}
		t := &table{id: binary.BigEndian.Uint32(sub)}
		t.headers.Store(value[0]&flagHeaders != 0)
		m[t.id] = t
		return nil
	})
}

// MarkHeaders records that the table may have headers. It precedes the first header in the log, so a crash can never keep the
// header and lose the mark.
func (s *Store) MarkHeaders(id uint32) error {
	t := s.table(id)
	if t.headers.Load() {
		return nil
	}
	s.tables.mu.Lock()
	defer s.tables.mu.Unlock()
	if t.headers.Load() {
		return nil
	}
	key := keys.AppendSystem(nil, keys.FlagsID, binary.BigEndian.AppendUint32(nil, id))
	if err := s.db.Set(key, []byte{flagHeaders}, pebble.NoSync); err != nil {
		return s.check(fmt.Errorf("mark headers of table %d: %w", id, err))
	}
	t.headers.Store(true)
	return nil
}

// errDamage marks stored bytes that do not decode though their checksums are right.
var errDamage = errors.New("undecodable")

func isDamage(err error) bool {
	return errors.Is(err, errDamage) || errors.Is(err, row.ErrCorrupt) || errors.Is(err, keys.ErrCorrupt) || errors.Is(err, keys.ErrReplicaCorrupt)
}
