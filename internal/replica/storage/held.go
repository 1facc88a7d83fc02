// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// heldSpans caches which spans of which tables the replicas of this node have. Background work asks for them often, and
// they change rarely: when a replica is created, removed, split or merged. Changes count themselves before and after
// they are committed; the cache serves only while none is in progress.
type heldSpans struct {
	begun, done atomic.Uint64
	cached      atomic.Pointer[heldAt]
	// scans counts how often the metas of all partitions were read.
	scans atomic.Uint64
}

// heldAt is the spans by table after a number of changes.
type heldAt struct {
	changes uint64
	byTable map[uint32][]keys.Span
}

// held returns the spans of a table that replicas of this node have. The caller must not modify the result.
func (s *Records) held(table uint32) ([]keys.Span, error) {
	h := &s.spans
	done := h.done.Load() // before begun: if they are equal no change was in progress
	steady := h.begun.Load() == done
	if c := h.cached.Load(); steady && c != nil && c.changes == done {
		return c.byTable[table], nil
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	h.scans.Add(1)
	byTable := map[uint32][]keys.Span{}
	err := s.Scan(keys.PartitionID, nil, func(_, value []byte) error {
		m, err := keys.DecodeMeta(value)
		if err == nil && m.Partition != keys.MetaPartition {
			byTable[m.Span.Table] = append(byTable[m.Span.Table], m.Span)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if steady {
		h.cached.Store(&heldAt{done, byTable})
	}
	return byTable[table], nil
}
