// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"sync/atomic"

	"github.com/ilion-db/ilion/internal/model/keys"
)

// spanCache caches the table spans that the replicas of this node own. The spans change when a replica is created,
// removed, split, or merged. Every change increments one counter before its commit and another counter after its
// commit. The cache is used only while no change is in progress.
type spanCache struct {
	begun, done atomic.Uint64
	cached      atomic.Pointer[spanCacheEntry]
	// scans counts how often the metas of all partitions have been read.
	scans atomic.Uint64
}

// spanCacheEntry holds the spans of all tables after a number of changes.
type spanCacheEntry struct {
	changes uint64
	byTable map[uint32][]keys.Span
}

// localSpans returns the spans of a table that the replicas of this node own. The caller must not modify the result.
func (s *Records) localSpans(table uint32) ([]keys.Span, error) {
	h := &s.spans
	done := h.done.Load() // done must be read before begun to detect changes in progress
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
		h.cached.Store(&spanCacheEntry{done, byTable})
	}
	return byTable[table], nil
}
