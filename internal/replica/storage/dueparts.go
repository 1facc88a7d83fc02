// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// duePart is a due dedupe record that may belong to an atomic batch, with the record's note. led is the index of the
// span that this node leads, or -1.
type duePart struct {
	key, note []byte
	led       int
}

// dueParts holds the due parts found by one slice. SweepDue sweeps these parts at its end, so that it queries the batch
// log only once.
type dueParts struct {
	sweep *dueSweep
	parts []duePart
	// done holds the notes that can be removed after the parts have been swept.
	done [][]byte
}

// duePartsMax is the maximum number of dueParts in a SweepDue. Further notes remain for the next call.
const duePartsMax = 1 << 12

// deferParts moves the parts of a slice and their notes to d.parts.
func (d *dueSweep) deferParts(sl *dueSlice) {
	if len(sl.parts) == 0 {
		return
	}
	noted := map[string]bool{}
	for _, p := range sl.parts {
		noted[string(p.note)] = true
	}
	found := dueParts{sweep: d, parts: sl.parts}
	sl.done = slices.DeleteFunc(sl.done, func(note []byte) bool {
		if noted[string(note)] {
			found.done = append(found.done, note)
		}
		return noted[string(note)]
	})
	if len(*d.parts) < duePartsMax {
		*d.parts = append(*d.parts, found)
	}
}

// sweepParts sweeps the dedupe records of parts. It keeps the records and notes of batches that are in the batch log.
func sweepParts(ctx context.Context, o *SweeperOptions, all []dueParts) error {
	if len(all) == 0 {
		return nil
	}
	recorded, err := askRecorded(ctx, o.Node)
	errs := []error{err}
	for _, found := range all {
		kept := map[string]bool{}
		list := map[int][][]byte{}
		for _, p := range found.parts {
			if partRecorded(p.key, recorded) || !found.sweep.sweep(list, p.led, p.key) {
				kept[string(p.note)] = true
			}
		}
		if err := found.sweep.propose(ctx, list); err != nil {
			errs = append(errs, err)
			continue
		}
		b := found.sweep.s.db.NewBatch()
		for _, note := range found.done {
			if !kept[string(note)] {
				_ = b.Delete(note, nil) // Delete fails only for indexed batches
			}
		}
		errs = append(errs, b.Commit(pebble.NoSync), b.Close())
	}
	return errors.Join(errs...)
}
