// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"io"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ilion-db/ilion/internal/model/keys"
	"github.com/ilion-db/ilion/internal/model/row"
)

// Every store contains the name of the merger.
var merger = &pebble.Merger{
	Name: "ilion.row.v1",
	Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		if keys.ID(key) == keys.ProgressID {
			return newProgressMerge(value)
		}
		m := merges.Get().(*valueMerge)
		m.first = append(m.first[:0], value...)
		return m, nil
	},
}

var merges = sync.Pool{New: func() any { return new(valueMerge) }}

// valueMerge is a Pebble merge. It does not implement DeletableValueMerger, because that interface resurrects data in
// Pebble v2.1.7. It never purges data, so it returns a single operand unchanged.
type valueMerge struct {
	// first is the first operand. chunk contains all other operands. The row.Merger refers to both.
	first, chunk []byte
	m            row.Merger
	begun        bool
	out          []byte
}

// chunkMin is the minimum size of a chunk.
const chunkMin = 4 << 10

// keptMax is the maximum memory, in bytes, that a pooled merge retains.
const keptMax = 1 << 20

func (v *valueMerge) add(value []byte) error {
	if !v.begun {
		v.begun = true
		v.m.Reset()
		if err := v.m.Add(v.first); err != nil {
			return err
		}
		v.chunk = v.chunk[:0]
	}
	if cap(v.chunk)-len(v.chunk) < len(value) {
		// The merger still refers to the old chunk.
		v.chunk = make([]byte, 0, max(2*cap(v.chunk), len(value), chunkMin))
	}
	n := len(v.chunk)
	v.chunk = append(v.chunk, value...)
	return v.m.Add(v.chunk[n:])
}

// MergeNewer implements pebble.ValueMerger. Operands may arrive in any order.
func (v *valueMerge) MergeNewer(value []byte) error { return v.add(value) }

// MergeOlder implements pebble.ValueMerger.
func (v *valueMerge) MergeOlder(value []byte) error { return v.add(value) }

// Finish implements pebble.ValueMerger.
func (v *valueMerge) Finish(bool) ([]byte, io.Closer, error) {
	if !v.begun {
		return v.first, v, nil
	}
	v.out = v.m.Append(v.out[:0])
	return v.out, v, nil
}

// Close releases the memory.
func (v *valueMerge) Close() error {
	if v.begun {
		v.m.Reset()
		v.begun = false
	}
	if cap(v.first)+cap(v.chunk)+cap(v.out) <= keptMax {
		merges.Put(v)
	}
	return nil
}
