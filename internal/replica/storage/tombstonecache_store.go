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

// Runs of many dead rows are also stored on disk, so that the first read after a restart need not step over the rows. A
// stored list of runs is valid in every prefix of the log that a crash may leave. To ensure this, the list is stored
// while no commit is in progress, and a batch that writes a row in a run deletes the list. A stored list is local to a
// node and not part of a replica's state.

// savedState compares the stored list of a partition with the list in memory.
type savedState uint8

const (
	_ savedState = iota
	// savedMirrored means that memory contains the stored list.
	savedMirrored
	// savedUnknown means that the list has been dropped from memory. Any live row then invalidates the stored list.
	savedUnknown
)

// saveRuns stores the runs of a partition if they contain enough rows.
func (s *runFinder) saveRuns(prefix []byte) error {
	if s.o.ReadOnly {
		return nil
	}
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	d := &s.tombstones
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
		return fmt.Errorf("store tombstone runs: %w", err)
	}
	return nil
}

// loadRuns loads the runs stored by an earlier process.
func (s *runFinder) loadRuns() error {
	d := &s.tombstones
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
			return fmt.Errorf("tombstone runs of %x: %w", prefix, err)
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

func (s *runFinder) deleteSaved() error {
	lower := keys.AppendSystem(nil, keys.TombstoneCacheID, nil)
	if err := s.db.DeleteRange(lower, keys.After(slices.Clone(lower)), pebble.NoSync); err != nil {
		return fmt.Errorf("delete tombstone runs: %w", err)
	}
	return nil
}

// holdRuns drops the known runs in [lower, upper), and prevents searches in this range until tombstoneCache.release is
// called. It must be called before sstables are ingested in the range, because no writer announces the rows of these
// sstables. The caller must then call Sync.
func (s *runFinder) holdRuns(lower, upper []byte) error {
	s.commitMu.Lock()
	defer s.commitMu.Unlock()
	if s.tombstones.bytesMax < 0 {
		return nil
	}
	s.tombstones.hold(lower, upper)
	if err := s.db.DeleteRange(keys.AppendSystem(nil, keys.TombstoneCacheID, lower),
		keys.AppendSystem(nil, keys.TombstoneCacheID, upper),
		pebble.NoSync); err != nil {
		return fmt.Errorf("delete tombstone runs: %w", err)
	}
	return nil
}

// appendRuns encodes runs. The encoding of a run is a byte, which is 1 if the run has no end, followed by start and end
// with their lengths, asOf, and rows. All numbers are uvarints.
func appendRuns(dst []byte, runs []tombstoneRun) []byte {
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

func readRuns(b []byte) ([]tombstoneRun, error) {
	r := codec.NewReader(b, errDamage)
	var runs []tombstoneRun
	for len(r.Rest()) > 0 {
		open := r.Flag()
		run := tombstoneRun{start: bytes.Clone(r.Bytes()), end: bytes.Clone(r.Bytes()), asOf: int64(r.Uint()),
			rows: int(r.Uint()), version: 1}
		if open {
			run.end = nil
		}
		runs = append(runs, run)
	}
	return runs, r.Err()
}
