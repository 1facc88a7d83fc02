// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/codec"
	"github.com/ilion-db/ilion/internal/model/keys"
)

// What is known of many dead rows is stored too, so that the first read after a restart need not walk over them. A
// stored list is deleted by the very batch that writes a row into one of its runs, and it is stored while no commit is
// under way: so in every prefix of the log that a crash may leave, a stored list is true. It is a node's own and no
// part of a replica's state.

// savedState says how the stored list of a partition compares with the one in memory.
type savedState uint8

const (
	_ savedState = iota
	// savedMirrored lists are part of what is in memory.
	savedMirrored
	// savedUnknown lists have been dropped from memory; any live row makes them void.
	savedUnknown
)

// saveRuns stores the runs of a partition if there are enough rows in them.
func (s *learner) saveRuns(prefix []byte) error {
	if s.o.ReadOnly {
		return nil
	}
	s.gate.Lock()
	defer s.gate.Unlock()
	d := &s.dead
	d.mu.Lock()
	runs, rows := d.runs[string(prefix)], 0
	for i := range runs {
		rows += runs[i].rows
	}
	if rows < d.saveMin || d.saved[string(prefix)] == 0 && len(d.saved) >= deadSavedMax {
		d.mu.Unlock()
		return nil
	}
	d.saved[string(prefix)] = savedMirrored
	d.count()
	d.mu.Unlock()
	if err := s.db.Set(keys.AppendSystem(nil, keys.TombstoneCacheID, prefix), appendRuns(nil, runs),
		pebble.NoSync); err != nil {
		return fmt.Errorf("store dead runs: %w", err)
	}
	return nil
}

// loadRuns takes what an earlier process stored.
func (s *learner) loadRuns() error {
	d := &s.dead
	if d.bytesMax < 0 {
		if s.o.ReadOnly {
			return nil
		}
		return s.deleteSaved()
	}
	d.version.Store(1)
	return s.Scan(keys.TombstoneCacheID, nil, func(prefix, value []byte) error {
		runs, err := readRuns(value)
		if err != nil {
			return fmt.Errorf("dead runs of %x: %w", prefix, err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.saved[string(prefix)] = savedUnknown; d.bytes+size(runs) <= d.bytesMax {
			d.saved[string(prefix)] = savedMirrored
			d.set(prefix, runs)
		}
		d.count()
		return nil
	})
}

func (s *learner) deleteSaved() error {
	lower := keys.AppendSystem(nil, keys.TombstoneCacheID, nil)
	if err := s.db.DeleteRange(lower, keys.After(slices.Clone(lower)), pebble.NoSync); err != nil {
		return fmt.Errorf("delete dead runs: %w", err)
	}
	return nil
}

// holdDeadRuns drops what the store knows about deleted rows in [lower, upper), and learns nothing about them before
// deadRuns.release. It is called, and Sync after it, before sstables are ingested there, since their rows are announced
// by no writer.
func (s *learner) holdDeadRuns(lower, upper []byte) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.dead.bytesMax < 0 {
		return nil
	}
	s.dead.hold(lower, upper)
	if err := s.db.DeleteRange(keys.AppendSystem(nil, keys.TombstoneCacheID, lower),
		keys.AppendSystem(nil, keys.TombstoneCacheID, upper),
		pebble.NoSync); err != nil {
		return fmt.Errorf("delete dead runs: %w", err)
	}
	return nil
}

// appendRuns encodes runs: for each a byte, 1 if it has no end, start and end with their lengths, asOf and rows,
// uvarints all.
func appendRuns(dst []byte, runs []deadRun) []byte {
	w := codec.Writer(dst)
	for i := range runs {
		r := &runs[i]
		w.Flag(r.end == nil)
		w.Bytes(r.start)
		w.Bytes(r.end)
		w.Uint(uint64(r.asOf))
		w.Uint(uint64(r.rows))
	}
	return w
}

func readRuns(b []byte) ([]deadRun, error) {
	r := codec.NewReader(b, errDamage)
	var runs []deadRun
	for len(r.Rest()) > 0 {
		open := r.Flag()
		run := deadRun{start: bytes.Clone(r.Bytes()), end: bytes.Clone(r.Bytes()), asOf: int64(r.Uint()),
			rows: int(r.Uint()), version: 1}
		if open {
			run.end = nil
		}
		runs = append(runs, run)
	}
	return runs, r.Err()
}
